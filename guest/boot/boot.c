// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of a virtual machine until its agent is there, the same whatever is to be measured: so that the machine can
 * be stopped and kept here, and each cell goes on from a copy.
 *
 * It says where in the machine's memory there is room, and waits for a line. Meanwhile the controller writes into
 * that room, from outside, what the cell is: the agent linked with its workload, the job, BPF programs. It takes no
 * device and no driver.
 */
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "archive.h"
#include "handover.h"
#include "machine/init.h"
#include "modules.h"
#include "protocol/recorder.h"
#include "protocol/report.h"
#include "root.h"

static const struct {
	const char *type, *path;
} file_systems[] = {
	{ "proc", "/proc" },
	{ "sysfs", "/sys" },
	{ "devtmpfs", "/dev" },
	{ "tmpfs", "/tmp" },
	{ "tmpfs", "/dev/shm" },
	{ "devpts", "/dev/pts" },
	{ "debugfs", "/sys/kernel/debug" },
	{ "tracefs", "/sys/kernel/tracing" },
	{ "securityfs", "/sys/kernel/security" },
	{ "cgroup2", "/sys/fs/cgroup" },
};

static void mount_all(void)
{
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(*file_systems); i++) {
		mkdir(file_systems[i].path, 0755);
		/* A kernel built without one of them still runs every workload that does not need it. */
		if (mount(file_systems[i].type, file_systems[i].path, file_systems[i].type, 0, NULL))
			printf("agent: no %s: %m\n", file_systems[i].type);
	}
}

static void bring_up_loopback(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
		printf("agent: no loopback interface: %m\n");
	if (fd >= 0)
		close(fd);
}

/*
 * x86 measures its time stamp counter once more in the first second or two, and then changes its clock, for which it
 * stops all CPUs: that is no doing of a workload.
 */
static void wait_for_clock(void)
{
	const struct timespec poll = { .tv_nsec = 20000000 };
	char name[32];

	for (int looks = 0; looks < 500; looks++) {
		FILE *clock = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
		int early = clock && fgets(name, sizeof(name), clock) && !strcmp(name, "tsc-early\n");

		if (clock)
			fclose(clock);
		if (!early)
			return;
		nanosleep(&poll, NULL);
	}
}

static int load_modules(int with_symbols)
{
	if (modules_load())
		return 1;
	if (with_symbols)
		record_module_symbols();
	return 0;
}

int main(void)
{
	struct room room;
	const char *archive;
	size_t length;
	int with_symbols;

	mount_all();
	bring_up_loopback();
	report_open(SECOND_SERIAL_LINE);
	with_symbols = !access("/symbols", F_OK);
	if (with_symbols)
		record_symbols();
	wait_for_clock();
	if (load_modules(with_symbols) || root_mount() || room_make(&room) || handover_wait(&room, &archive, &length) ||
	    archive_unpack(AT_FDCWD, archive, length)) {
		report_end(1);
		halt_machine();
	}
	if (chdir("/tmp"))
		perror("agent: /tmp");
	execl("/agent", "/agent", NULL);
	report_error("machine", "cannot start the agent: %m");
	report_end(1);
	halt_machine();
}
