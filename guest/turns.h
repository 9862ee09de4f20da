/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Turns by operation. An emulator that runs all CPUs in one thread lets each run for as long as it wants to, up to 100 ms,
 * before the next one: tasks would do hundreds of operations at a stretch, and hardly ever meet. So a task that has done
 * an operation hints that another may run.
 *
 * A workload counts its operations itself, with ++*iterations. It is compiled with -fsanitize-coverage=trace-pc, so that
 * every basic block of it calls __sanitizer_cov_trace_pc(), which looks whether the count has changed.
 */
#ifndef TURNS_H
#define TURNS_H

/*
 * Before tasks start: a turn ends after so many operations, 0 for one; with a seed, after each operation with a chance of
 * a half, so that tasks meet in another order.
 */
void set_turns(unsigned long operations, unsigned long seed);
/*
 * By task number `nr`: its turn ends when `count` has changed so often. `goal` is a count; `left` is how many tasks have
 * not reached theirs yet: a futex, which the last one wakes.
 */
void end_turns_with(const unsigned long long *count, const volatile unsigned long long *goal, unsigned int *left,
		    unsigned long nr);
/* By a process that was forked from such a task, and does none of its operations. */
void end_no_turns(void);

#endif
