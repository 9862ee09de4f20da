// SPDX-License-Identifier: GPL-2.0-or-later
#include "patience.h"

#include <stdio.h>

#include "machine/clock.h"
#include "protocol/job.h"

/* Documentation/admin-guide/iostats.rst: after its name, a disk's ninth figure is of the requests in flight. */
static int disks_are_busy(void)
{
	FILE *file = fopen("/proc/diskstats", "re");
	unsigned long in_flight;
	char line[256];
	int busy = 0;

	if (!file)
		return 0;
	while (!busy && fgets(line, sizeof(line), file))
		busy = sscanf(line, "%*u %*u %*s %*u %*u %*u %*u %*u %*u %*u %*u %lu", &in_flight) == 1 && in_flight;
	fclose(file);
	return busy;
}

void patience_begin(struct patience *patience, const struct job *job)
{
	patience->clock_jumps = job->dilated != 0;
	patience->looked = clock_ns();
	patience->deadline = patience->looked + job_dilated_ns(job, job->patience_s * 1000000000ull);
}

int patience_is_over(struct patience *patience)
{
	uint64_t now = clock_ns();

	if (patience->clock_jumps && disks_are_busy())
		patience->deadline += now - patience->looked;
	patience->looked = now;
	return now > patience->deadline;
}
