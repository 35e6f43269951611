// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Records the calls by which a database server reads and writes pages: pread64 and others, io_submit, io_uring. Each
// record has the file, the offset, and the address of the buffer in the server's memory.
//
// The kernel's structures have here only the fields that are read. Loading the program (CO-RE) takes their places from
// the kernel's BTF. tools/bpf makes calls.bpf.o from this file.

#include "server.h"

struct super_block {
    __u32 s_dev;
} KERNEL;

struct inode {
    unsigned long i_ino;
    struct super_block *i_sb;
} KERNEL;

struct qstr {
    const unsigned char *name;
} KERNEL;

struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
} KERNEL;

struct path {
    struct dentry *dentry;
} KERNEL;

struct file {
    struct inode *f_inode;
    struct path f_path;
} KERNEL;

struct fdtable {
    __u32 max_fds;
    struct file **fd;
} KERNEL;

struct files_struct {
    struct fdtable *fdt;
} KERNEL;

struct pt_regs {
    unsigned long di, si, dx, r10;
} KERNEL;

struct kiocb {
    struct file *ki_filp;
    __s64 ki_pos;
} KERNEL;

struct io_rw {
    struct kiocb kiocb;
    __u64 addr;
    __u32 len;
} KERNEL;

struct io_cqe {
    __s32 res;
} KERNEL;

struct io_kiocb {
    __u8 opcode;
    struct io_cqe cqe;
} KERNEL;

// The system calls' numbers on x86-64, and what they share with user space (uio.h, aio_abi.h and io_uring.h).
enum { PREAD64 = 17, PWRITE64 = 18, IO_SUBMIT = 209, PREADV = 295, PWRITEV = 296, PREADV2 = 327, PWRITEV2 = 328 };
enum { IOCB_CMD_PREAD = 0, IOCB_CMD_PWRITE = 1, IOCB_CMD_PREADV = 7, IOCB_CMD_PWRITEV = 8 };
enum { OP_READV = 1, OP_WRITEV = 2, OP_READ_FIXED = 4, OP_WRITE_FIXED = 5, OP_READ = 22, OP_WRITE = 23 };

struct iovec {
    __u64 base, bytes;
};

struct iocb {
    __u64 data;
    __u32 key, rw_flags;
    __u16 opcode;
    __s16 priority;
    __u32 descriptor;
    __u64 buffer, bytes;
    __s64 offset;
};

// The most vectors and requests that are read of one call; further ones are only counted.
enum { MOST_VECTORS = 256, MOST_SUBMITTED = 64 };

// A record, as crates/bufferlab-probe/src/page_trace/calls.rs reads it.
struct call {
    __u64 t_ns, address, offset, inode;
    __u32 device, process, bytes;
    __u32 writes;
    // The beginning of the name of the file's folder: logs are not data.
    char folder[8];
};

// The counts of each processor.
struct counts {
    // Records for which the buffer had no room, vectors and requests that were not read, and calls without a file.
    __u64 lost, left_out, no_file;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 23);
} calls SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counts);
} counted SEC(".maps");

// The server's process, in the first PID namespace; also the parent of its sessions (PostgreSQL).
const volatile __s32 server_pid = 0;

static __always_inline struct counts *count(void) {
    __u32 first = 0;
    return bpf_map_lookup_elem(&counted, &first);
}

// Returns the process of the running task if it is the server's, else 0.
static __always_inline __u32 process_of_server(void) {
    struct task_struct *task = bpf_get_current_task_btf();
    __s32 process = task->tgid;
    return process == server_pid || task->real_parent->tgid == server_pid ? process : 0;
}

static __always_inline struct file *file_of(__u32 descriptor) {
    struct task_struct *task = bpf_get_current_task_btf();
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    struct file **files = BPF_CORE_READ(table, fd);
    struct file *file = 0;
    if (descriptor < BPF_CORE_READ(table, max_fds))
        bpf_probe_read_kernel(&file, sizeof file, files + descriptor);
    return file;
}

static __always_inline void tell(struct file *file, __u32 process, __u64 address, __u64 offset, __u64 bytes,
                                 _Bool writes) {
    struct inode *inode = BPF_CORE_READ(file, f_inode);
    struct counts *counts = count();
    if (!counts)
        return;
    if (!inode) {
        counts->no_file += 1;
        return;
    }
    struct call *call = bpf_ringbuf_reserve(&calls, sizeof *call, 0);
    if (!call) {
        counts->lost += 1;
        return;
    }
    *call = (struct call){
        .t_ns = bpf_ktime_get_ns(),
        .address = address,
        .offset = offset,
        .inode = BPF_CORE_READ(inode, i_ino),
        .device = BPF_CORE_READ(inode, i_sb, s_dev),
        .process = process,
        .bytes = bytes,
        .writes = writes,
    };
    const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_parent, d_name.name);
    bpf_probe_read_kernel_str(call->folder, sizeof call->folder, name);
    // The reader polls many times a second: waking it would cost more than the record.
    bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);
}

struct vectors {
    struct file *file;
    __u64 at, offset;
    __u32 process;
    _Bool writes;
};

// Counts vectors and requests that were not read.
static __always_inline long left_out(__u64 count_of_them) {
    struct counts *counts = count();
    if (counts)
        counts->left_out += count_of_them;
    return 1;
}

static long tell_vector(__u32 number, void *context) {
    struct vectors *asked = context;
    struct iovec vector;
    if (bpf_probe_read_user(&vector, sizeof vector, (void *)(asked->at + number * sizeof vector)))
        return left_out(1);
    tell(asked->file, asked->process, vector.base, asked->offset, vector.bytes, asked->writes);
    asked->offset += vector.bytes;
    return 0;
}

static __always_inline void tell_vectors(struct vectors asked, __u64 count_of_them) {
    __u32 read = count_of_them < MOST_VECTORS ? count_of_them : MOST_VECTORS;
    left_out(count_of_them - read);
    bpf_loop(read, tell_vector, &asked, 0);
}

struct submitted {
    __u64 at;
    __u32 process;
};

static long tell_submitted(__u32 number, void *context) {
    struct submitted *asked = context;
    struct iocb *place;
    struct iocb request;
    if (bpf_probe_read_user(&place, sizeof place, (void *)(asked->at + number * sizeof place)) ||
        bpf_probe_read_user(&request, sizeof request, place))
        return left_out(1);
    struct file *file = file_of(request.descriptor);
    _Bool writes = request.opcode == IOCB_CMD_PWRITE || request.opcode == IOCB_CMD_PWRITEV;
    if (request.opcode == IOCB_CMD_PREAD || request.opcode == IOCB_CMD_PWRITE) {
        tell(file, asked->process, request.buffer, request.offset, request.bytes, writes);
    } else if (request.opcode == IOCB_CMD_PREADV || request.opcode == IOCB_CMD_PWRITEV) {
        // Read one vector: a nested loop would need a bound of both loops, and no server submits more than one.
        struct iovec vector;
        if (bpf_probe_read_user(&vector, sizeof vector, (void *)request.buffer))
            return left_out(1);
        tell(file, asked->process, vector.base, request.offset, vector.bytes, writes);
    }
    return 0;
}

SEC("tp_btf/sys_enter")
int system_call(__u64 *context) {
    __u64 number = context[1];
    _Bool writes = 0, is_vector = 0;
    switch (number) {
    case PREAD64:
        break;
    case PWRITE64:
        writes = 1;
        break;
    case PREADV:
    case PREADV2:
        is_vector = 1;
        break;
    case PWRITEV:
    case PWRITEV2:
        is_vector = writes = 1;
        break;
    case IO_SUBMIT:
        break;
    default:
        return 0;
    }
    __u32 process = process_of_server();
    if (!process)
        return 0;
    struct pt_regs *registers = (void *)context[0];
    if (number == IO_SUBMIT) {
        struct submitted asked = {.at = registers->dx, .process = process};
        __u64 wanted = registers->si;
        __u32 read = wanted < MOST_SUBMITTED ? wanted : MOST_SUBMITTED;
        left_out(wanted - read);
        bpf_loop(read, tell_submitted, &asked, 0);
        return 0;
    }
    struct file *file = file_of(registers->di);
    if (is_vector) {
        struct vectors asked = {file, registers->si, registers->r10, process, writes};
        tell_vectors(asked, registers->dx);
    } else {
        tell(file, process, registers->si, registers->r10, registers->dx, writes);
    }
    return 0;
}

SEC("tp_btf/io_uring_complete")
int ring_request(__u64 *context) {
    __u32 process = process_of_server();
    if (!process)
        return 0;
    struct io_kiocb *request = (void *)context[1];
    struct io_rw *asked = (void *)request;
    __u8 operation = BPF_CORE_READ(request, opcode);
    __s32 done = BPF_CORE_READ(request, cqe.res);
    _Bool writes = operation == OP_WRITEV || operation == OP_WRITE_FIXED || operation == OP_WRITE;
    _Bool is_vector = operation == OP_READV || operation == OP_WRITEV;
    if (done <= 0 || (!writes && !is_vector && operation != OP_READ && operation != OP_READ_FIXED))
        return 0;
    struct file *file = BPF_CORE_READ(asked, kiocb.ki_filp);
    // The position has moved on by the bytes that were read or written.
    __u64 offset = BPF_CORE_READ(asked, kiocb.ki_pos) - done;
    __u64 address = BPF_CORE_READ(asked, addr);
    __u32 length = BPF_CORE_READ(asked, len);
    if (is_vector) {
        struct vectors vectors = {file, address, offset, process, writes};
        tell_vectors(vectors, length);
    } else {
        tell(file, process, address, offset, done, writes);
    }
    return 0;
}
