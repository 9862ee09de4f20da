// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long tasks were off the CPU, where, and why: added up in the kernel, a row for each task, stack and state.
 *
 * A task that leaves its CPU writes down when, from where and in which state; when it comes back, the time since
 * is added to its row. Counting is switched on and off from user space: a time counts if all of it lies after the
 * moment at which counting was last switched on.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "blocked_maps.h"
#include "stacks.bpf.h"

/* Of struct task_struct's state. */
#define TASK_DEAD 0x80
#define TASK_NOLOAD 0x400
#define TASK_RTLOCK_WAIT 0x1000 /* since 5.15: for a lock that spins on kernels without PREEMPT_RT */
#define TASK_FROZEN 0x8000 /* since 6.1 */

char LICENSE[] SEC("license") = "GPL";

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	char comm[TASK_NAME_BYTES];
} __attribute__((preserve_access_index));

/* Before 5.14. */
struct task_struct___before {
	volatile long state;
} __attribute__((preserve_access_index));

/*
 * The tracepoint's arguments since 5.18. A kernel has the type of this name in any case: bpf_core_type_exists() compares
 * what it is.
 */
typedef void (*btf_trace_sched_switch)(void *data, _Bool preempt, struct task_struct *prev, struct task_struct *next,
				       unsigned int prev_state);

/* What the tracepoint tells: /sys/kernel/tracing/events/sched/sched_switch/format. */
struct sched_switch {
	__u64 common;
	char prev_comm[TASK_NAME_BYTES];
	int prev_pid;
	int prev_prio;
	long prev_state;
	char next_comm[TASK_NAME_BYTES];
	int next_pid;
	int next_prio;
};

const volatile struct blocked_filter filter;
volatile struct blocked_count counting;

/*
 * Invariant: what belongs to a task is written only while the scheduler switches it out or in, which never
 * happens to one task on two CPUs at once. So nothing below needs an atomic operation but `lost`.
 */
struct departure {
	__u64 when;
	int kernel_stack, user_stack;
	__u32 state;
	__u32 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* and more where there are many CPUs: see the agent */
	__type(key, __u32);
	__type(value, struct departure);
} departures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct blocked_key);
	__type(value, struct blocked_value);
} rows SEC(".maps");

static __always_inline int is_wanted(__u32 pid, __u32 tgid, __u32 state)
{
	if (filter.pid && pid != filter.pid)
		return 0;
	if (filter.tgid && tgid != filter.tgid)
		return 0;
	if (filter.states && !(state & filter.states))
		return 0;
	return pid != filter.left_out[0] && pid != filter.left_out[1];
}

static __always_inline void left(void *ctx, __u32 pid, __u32 tgid, __u32 state, __u64 now)
{
	struct departure *departure;

	if (state & STATE_DEAD) {
		bpf_map_delete_elem(&departures, &pid);
		return;
	}
	departure = bpf_map_lookup_elem(&departures, &pid);
	if (!is_wanted(pid, tgid, state)) {
		if (departure)
			departure->when = 0;
		return;
	}
	if (!departure) {
		struct departure none = {};

		bpf_map_update_elem(&departures, &pid, &none, BPF_ANY);
		departure = bpf_map_lookup_elem(&departures, &pid);
		if (!departure) {
			__sync_fetch_and_add(&counting.lost, 1);
			return;
		}
	}
	departure->tgid = tgid;
	departure->state = state;
	departure->kernel_stack = kernel_stack_of(ctx, &counting.lost);
	departure->user_stack = filter.user_stacks ? user_stack_of(ctx, &counting.lost_user_stacks) : -1;
	departure->when = now;
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bucket = 0;

	ns >>= FIRST_BUCKET_BITS;
	if (ns >> 16) {
		ns >>= 16;
		bucket = 16;
	}
	if (ns >> 8) {
		ns >>= 8;
		bucket += 8;
	}
	if (ns >> 4) {
		ns >>= 4;
		bucket += 4;
	}
	if (ns >> 2) {
		ns >>= 2;
		bucket += 2;
	}
	bucket += ns >= 2 ? 2 : ns;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline struct blocked_value *new_row(const struct blocked_key *key, __u32 tgid, const char *task)
{
	struct blocked_value value = { .tgid = tgid };

	bpf_probe_read_kernel_str(value.task, sizeof(value.task), task);
	bpf_map_update_elem(&rows, key, &value, BPF_NOEXIST);
	return bpf_map_lookup_elem(&rows, key);
}

static __always_inline void came_back(__u32 pid, const char *task, __u64 since, __u64 now)
{
	struct departure *departure = bpf_map_lookup_elem(&departures, &pid);
	struct blocked_key key = { .pid = pid };
	struct blocked_value *row;
	__u64 ns;

	if (!departure || departure->when < since)
		return;
	ns = now - departure->when;
	departure->when = 0;
	if (ns < filter.min_ns)
		return;
	key.kernel_stack = departure->kernel_stack;
	key.user_stack = departure->user_stack;
	key.state = departure->state;
	row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		row = new_row(&key, departure->tgid, task);
	if (!row) {
		__sync_fetch_and_add(&counting.lost, 1);
		return;
	}
	row->count++;
	row->total_ns += ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->histogram[bucket_of(ns)]++;
}

/* The state in which the task left its CPU: in its own there may be another already, as who wakes it does not wait. */
static __always_inline __u32 raw_state(const __u64 *ctx, struct task_struct *prev)
{
	if (bpf_core_type_exists(btf_trace_sched_switch))
		return ctx[3];
	if (bpf_core_field_exists(prev->__state))
		return prev->__state;
	return ((struct task_struct___before *)prev)->state;
}

/* As the kernel's __task_state_index(). A task that gives up its CPU could have run, as one that is preempted. */
static __always_inline __u32 reported(__u32 state)
{
	if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
		return STATE_UNINTERRUPTIBLE;
	if (state & TASK_NOLOAD)
		return STATE_IDLE;
	if (state & TASK_DEAD)
		return STATE_DEAD;
	return state & STATE_REPORTED ?: STATE_PREEMPTED;
}

/* All idle tasks have the number 0, and wait for nothing. */
SEC("tp_btf/sched_switch")
int typed(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 since = counting.since, now;
	__u32 from, to;

	if (!since)
		return 0;
	from = prev->pid;
	to = next->pid;
	now = bpf_ktime_get_ns();
	if (from)
		left(ctx, from, prev->tgid, ctx[0] ? STATE_PREEMPTED : reported(raw_state(ctx, prev)), now);
	if (to)
		came_back(to, next->comm, since, now);
	return 0;
}

/* The same for kernels without types: slower, as the kernel writes down an event first. */
SEC("tracepoint/sched/sched_switch")
int untyped(struct sched_switch *ctx)
{
	__u64 since = counting.since, now;

	if (!since)
		return 0;
	now = bpf_ktime_get_ns();
	if (ctx->prev_pid)
		left(ctx, ctx->prev_pid, bpf_get_current_pid_tgid() >> 32, ctx->prev_state ?: STATE_PREEMPTED,
		     now);
	if (ctx->next_pid)
		came_back(ctx->next_pid, ctx->next_comm, since, now);
	return 0;
}
