// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The common part of both recorders' programs: types and constants of BPF, and the kernel's structure of a task.

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_NOEXIST = 1, BPF_RB_NO_WAKEUP = 1 };

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

#define KERNEL __attribute__((preserve_access_index))

struct task_struct {
    __s32 pid;
    __s32 tgid;
    struct task_struct *real_parent;
    struct files_struct *files;
} KERNEL;

char LICENSE[] SEC("license") = "Dual BSD/GPL";
