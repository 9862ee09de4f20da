/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEASURE_H
#define MEASURE_H

struct job;

/* The runner's exit status: high, so that it is not mistaken for a workload's own exit(). */
enum { MEASURED = 111, MEASURE_REPORTED = 112 };

/* Run the workload as the job says: warm up, sample throughput, record. */
int measure(const struct job *job);

#endif
