// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each CPU spends its time on: which task, softirq or interrupt. At every change, the time since the last one
 * is added to what the CPU was doing until then.
 *
 * The kernel lets no two of these programs run inside one another on a CPU, so an event in the middle of another is
 * missed, and a few hundred nanoseconds go to its neighbour.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "efficiency_maps.h"

char LICENSE[] SEC("license") = "GPL";

/* /sys/kernel/tracing/events/irq/softirq_entry/format */
struct softirq {
	__u64 common;
	__u32 vec;
};

volatile struct share_count counting;

/* Of a CPU: since when it does what it does. In no softirq: 0; else the softirq's number plus one. */
struct now_doing {
	__u64 since;
	__u32 interrupt;
	__u32 softirq;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct now_doing);
} doing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* and more where there are many CPUs: see the agent */
	__type(key, struct share_key);
	__type(value, struct share_value);
} shares SEC(".maps");

static __always_inline struct share_value *share_of(const struct share_key *key)
{
	struct share_value *value = bpf_map_lookup_elem(&shares, key);
	struct share_value none = {};

	if (value)
		return value;
	if (key->kind == SHARE_TASK)
		bpf_get_current_comm(none.name, sizeof(none.name));
	bpf_map_update_elem(&shares, key, &none, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&shares, key);
	if (!value)
		__sync_fetch_and_add(&counting.lost, 1);
	return value;
}

/* Add the time up to now to what the CPU has been doing. Returns what it did, NULL while nothing is counted. */
static __always_inline struct now_doing *charge(int ends)
{
	__u64 since = counting.since, until = counting.until, now;
	__u32 zero = 0;
	struct now_doing *cpu = since ? bpf_map_lookup_elem(&doing, &zero) : 0;
	struct share_key key = { .cpu = bpf_get_smp_processor_id() };
	struct share_value *value;

	if (!cpu)
		return 0;
	if (cpu->since < since) {
		/* The last event was of an earlier count, and what it began has long ended. */
		cpu->since = since;
		cpu->interrupt = cpu->softirq = 0;
	}
	if (until && cpu->since >= until)
		return cpu;
	key.kind = cpu->interrupt ? SHARE_INTERRUPT : cpu->softirq ? SHARE_SOFTIRQ : SHARE_TASK;
	key.id = cpu->interrupt ? cpu->interrupt : cpu->softirq ? cpu->softirq - 1 : (__u32)bpf_get_current_pid_tgid();
	value = share_of(&key);
	now = bpf_ktime_get_ns();
	until = counting.until; /* read after the time, so that no time is past an end that was set before it came */
	if (until && now > until)
		now = until;
	if (value && now > cpu->since)
		value->ns += now - cpu->since;
	if (value && ends)
		value->times++;
	cpu->since = now;
	return cpu;
}

SEC("tracepoint/sched/sched_switch")
int task_ends(void *ctx)
{
	struct now_doing *cpu = charge(1);

	(void)ctx;
	if (cpu)
		cpu->interrupt = cpu->softirq = 0;
	return 0;
}

SEC("tracepoint/irq/softirq_entry")
int softirq_begins(struct softirq *ctx)
{
	struct now_doing *cpu = charge(0);

	if (cpu)
		cpu->softirq = ctx->vec + 1;
	return 0;
}

SEC("tracepoint/irq/softirq_exit")
int softirq_ends(void *ctx)
{
	struct now_doing *cpu = charge(1);

	(void)ctx;
	if (cpu)
		cpu->softirq = 0;
	return 0;
}

/* The agent attaches these to whichever interrupts the architecture has events of. */
SEC("tracepoint")
int timer_begins(void *ctx)
{
	struct now_doing *cpu = charge(0);

	(void)ctx;
	if (cpu)
		cpu->interrupt = TIMER_INTERRUPT;
	return 0;
}

SEC("tracepoint")
int interrupt_begins(void *ctx)
{
	struct now_doing *cpu = charge(0);

	(void)ctx;
	if (cpu)
		cpu->interrupt = OTHER_INTERRUPT;
	return 0;
}

SEC("tracepoint")
int interrupt_ends(void *ctx)
{
	struct now_doing *cpu = charge(1);

	(void)ctx;
	if (cpu)
		cpu->interrupt = NO_INTERRUPT;
	return 0;
}
