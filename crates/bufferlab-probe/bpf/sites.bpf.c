// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Records the accesses to pages at places in a database server's code. Each record has the values that a place
// asks for, taken from registers and memory of the thread that reaches the place.
//
// The program identifies places by their addresses: a cookie would need Linux 5.15, but 5.8 is supported.
// tools/bpf makes sites.bpf.o from this file.

#include "server.h"

// The registers in the kernel's order (ptrace.h).
struct pt_regs {
    __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

// The same numbers are in page_trace/sites.rs, which writes the values.
enum { MOST_VALUES = 12, MOST_STEPS = 2, CONSTANT = 255 };

struct value {
    // The value if `source` is CONSTANT.
    __u64 constant;
    // The distances of the addresses to read one after another: from the register's value, then each value read.
    __s32 distances[MOST_STEPS];
    // The number of a register, or CONSTANT.
    __u8 source;
    __u8 steps;
    // Bytes that the last step reads.
    __u8 bytes;
    // Whether the record keeps only that the value is not zero.
    __u8 truth;
    // The place in a record. A value is written with its upper bytes, and the next value overwrites these.
    __u8 at;
    __u8 unused[3];
};

struct site {
    // The server's process, in the first PID namespace; also the parent of its sessions (PostgreSQL).
    __s32 server;
    __u8 number;
    __u8 count;
    __u8 unused[2];
    struct value values[MOST_VALUES];
};

enum { SITE_AT = 31, LAST_AT = 30 };

// A record. Its first 32 bytes have the layout of those that a server records itself.
struct record {
    union {
        __u64 t_ns;
        __u8 bytes[SITE_AT + 1];
    };
    __u32 thread;
    __u32 unused;
};

// The counts of each processor.
struct counts {
    // Records for which the buffer had no room; stops of processes that are not the server's.
    __u64 lost, others;
};

// Maps have sizes in place of types: with types the kernel would have to know this object's BTF.
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 25);
} records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct counts));
} counted SEC(".maps");

// The sites, by their addresses in the server.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __uint(key_size, sizeof(__u64));
    __uint(value_size, sizeof(struct site));
} sites SEC(".maps");

// Processes of the same binary that are not the server's.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u8));
} strangers SEC(".maps");

// In assembly, because the verifier refuses a computed offset into the registers.
#define REGISTER(number)                                                                                               \
    case number:                                                                                                       \
        asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(found) : "r"(context), "i"(8 * number));                          \
        break;

static __always_inline __u64 register_of(struct pt_regs *context, __u8 number) {
    __u64 found = 0;
    switch (number) {
        REGISTER(0)
        REGISTER(1)
        REGISTER(2)
        REGISTER(3)
        REGISTER(4)
        REGISTER(5)
        REGISTER(6)
        REGISTER(7)
        REGISTER(8)
        REGISTER(9)
        REGISTER(10)
        REGISTER(11)
        REGISTER(12)
        REGISTER(13)
        REGISTER(14)
        REGISTER(18)
        REGISTER(19)
    }
    return found;
}

static __always_inline _Bool is_of(__s32 server, __u32 process) {
    if (process == server)
        return 1;
    struct task_struct *task = (void *)bpf_get_current_task();
    return BPF_CORE_READ(task, real_parent, tgid) == server;
}

// Returns the value that `asked` describes; 0 if an address is null, or cannot be read without waiting.
static __always_inline __u64 value_of(struct pt_regs *context, struct value *asked) {
    if (asked->source == CONSTANT)
        return asked->constant;
    __u64 value = register_of(context, asked->source);
    for (int step = 0; step < MOST_STEPS && step < asked->steps; step++) {
        __u64 place = value + asked->distances[step];
        __u32 bytes = step + 1 == asked->steps ? asked->bytes & 15 : sizeof value;
        _Bool is_null = value == 0;
        value = 0;
        if (is_null || bytes > sizeof value || bpf_probe_read_user(&value, bytes, (void *)place))
            return 0;
    }
    return value;
}

SEC("uprobe")
int site(struct pt_regs *context) {
    __u64 address = context->ip, ids = bpf_get_current_pid_tgid();
    __u32 first = 0, process = ids >> 32;
    struct counts *counts = bpf_map_lookup_elem(&counted, &first);
    struct site *site = bpf_map_lookup_elem(&sites, &address);
    if (!counts)
        return 0;
    if (!site || !is_of(site->server, process)) {
        __u8 there = 1;
        __sync_fetch_and_add(&counts->others, 1);
        bpf_map_update_elem(&strangers, &process, &there, BPF_NOEXIST);
        return 0;
    }
    struct record *record = bpf_ringbuf_reserve(&records, sizeof *record, 0);
    if (!record) {
        __sync_fetch_and_add(&counts->lost, 1);
        return 0;
    }
    for (int number = 0; number < MOST_VALUES && number < site->count; number++) {
        struct value *asked = &site->values[number];
        __u64 value = value_of(context, asked);
        if (asked->truth)
            value = value != 0;
        __u32 at = asked->at & 31;
        if (at <= LAST_AT)
            *(__u64 *)(record->bytes + at) = value;
    }
    record->t_ns = bpf_ktime_get_ns();
    record->bytes[SITE_AT] = site->number;
    record->thread = ids;
    // The reader polls many times a second: waking it would cost more than the record.
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    return 0;
}
