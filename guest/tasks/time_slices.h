/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time slices that end with operations. An emulator that runs all CPUs in one thread lets each CPU run for up to 100 ms. In
 * such a time slice a task would do hundreds of operations, and tasks would hardly ever meet. So a task that has done an
 * operation hints that another CPU may run.
 *
 * A workload counts its operations itself, with ++*iterations. It is compiled with -fsanitize-coverage=trace-pc: each basic
 * block calls __sanitizer_cov_trace_pc(), which sees whether the count has changed.
 */
#ifndef TIME_SLICES_H
#define TIME_SLICES_H

/*
 * Before tasks start: a time slice ends after so many operations, 0 for one. With a seed, it ends after each operation with
 * a probability of one half, so that tasks meet in another order.
 */
void set_time_slices(unsigned long operations, unsigned long seed);
/*
 * By task number `nr`: end the time slice when `count` has changed as often as that. When `count` reaches `target`, the
 * task decrements `tasks_below_target`. The last one wakes who waits for this futex.
 */
void end_time_slices_with(const unsigned long long *count, const volatile unsigned long long *target,
		    unsigned int *tasks_below_target, unsigned long nr);
/* By a process that was forked from such a task, and does none of its operations. */
void end_no_time_slices(void);

#endif
