/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The stacks of a program in the kernel, each kept once. The agent reads them (guest/libbpf/stacks.c). */
#ifndef STACKS_BPF_H
#define STACKS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "stacks_maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1024);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} more_stacks SEC(".maps");

/* Apart, as programs without frame pointers have no end of stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} user_stacks SEC(".maps");

/*
 * The number of the kernel's stack, negative if there is none. A stack's place in the map is its hash: where another
 * has it already, the second map has one, or else `lost` is counted.
 */
static __always_inline int kernel_stack_of(void *ctx, volatile __u64 *lost)
{
	int stack = bpf_get_stackid(ctx, &stacks, 0);

	if (stack != -17 /* EEXIST */)
		return stack;
	stack = bpf_get_stackid(ctx, &more_stacks, 0);
	if (stack >= 0)
		return stack | SECOND_MAP;
	__sync_fetch_and_add(lost, 1);
	return stack;
}

/* The same of the stack in user space, of which there is one map. */
static __always_inline int user_stack_of(void *ctx, volatile __u64 *lost)
{
	int stack = bpf_get_stackid(ctx, &user_stacks, BPF_F_USER_STACK);

	if (stack == -17 /* EEXIST */)
		__sync_fetch_and_add(lost, 1);
	return stack;
}

#endif
