// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "root.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../report.h"
#include "../root.h"

#define DISK "/dev/vda"
#define IMAGE "/image" /* the read-only file system of the disk */
#define CHANGES "/changes" /* what programs write */
#define MOST_READ (256l << 20)

static int wait_for_disk(void)
{
	const struct timespec poll = { .tv_nsec = 10000000 };

	for (int looks = 0; looks < 1000; looks++) {
		if (!access(DISK, F_OK))
			return 0;
		nanosleep(&poll, NULL);
	}
	return report_error("setting", "the kernel has no disk " DISK ": does it lack virtio_pci or virtio_blk?");
}

static int make_and_mount(const char *what, const char *path, const char *type, unsigned long flags, const char *options)
{
	mkdir(path, 0755);
	if (mount(what, path, type, flags, options))
		return report_error("setting", "the kernel does not mount %s on %s: %m", type ? type : what, path);
	return 0;
}

/* What the agent has mounted, and programs are to see too. */
static int share_mounts(void)
{
	static const char *const folders[] = { "/proc", "/sys", "/dev", "/tmp" };
	char path[64];

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(path, sizeof(path), ROOT_FOLDER "%s", folders[i]);
		if (make_and_mount(folders[i], path, NULL, MS_BIND | MS_REC, NULL))
			return 1;
	}
	return make_and_mount("tmpfs", ROOT_FOLDER "/run", "tmpfs", 0, "mode=755");
}

/* An image may come without it, and then nothing has the name localhost. */
static void name_localhost(void)
{
	FILE *hosts;

	sethostname("bigiron", strlen("bigiron"));
	mkdir(ROOT_FOLDER "/etc", 0755);
	if (!access(ROOT_FOLDER "/etc/hosts", F_OK))
		return;
	hosts = fopen(ROOT_FOLDER "/etc/hosts", "we");
	if (!hosts)
		return;
	fprintf(hosts, "127.0.0.1 localhost bigiron\n::1 localhost\n");
	fclose(hosts);
}

static long bytes_read;

static int read_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	static char part[1 << 18];
	ssize_t length;
	int fd;

	(void)place;
	if (kind != FTW_F || !S_ISREG(status->st_mode) || bytes_read + status->st_size > MOST_READ)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return 0;
	while ((length = read(fd, part, sizeof(part))) > 0)
		bytes_read += length;
	close(fd);
	return 0;
}

/*
 * To read a file for the first time is work of the kernel that a server has done long ago: pages of the disk, and names.
 * What is read now is in the memory that is kept.
 */
static void read_programs(void)
{
	static const char *const folders[] = { "bin", "sbin", "lib", "lib64", "opt", "usr/bin", "usr/sbin", "usr/lib",
					       "usr/local", "usr/libexec" };
	char path[64];

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		struct stat status;

		snprintf(path, sizeof(path), ROOT_FOLDER "/%s", folders[i]);
		/* Of what links to /usr, the target is read; links are not followed. */
		if (!lstat(path, &status) && S_ISDIR(status.st_mode))
			nftw(path, read_file, 16, FTW_PHYS | FTW_MOUNT);
	}
}

/*
 * The C library's getaddrinfo() with AI_ADDRCONFIG, which netperf uses, finds no address while the machine has only
 * loopback's. This one is of TEST-NET-1, RFC 5737: nothing is ever there.
 */
static void give_address(void)
{
	struct ifreq request = { .ifr_name = "lo:1" };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&request.ifr_addr, &address, sizeof(address));
	if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request))
		printf("agent: no address but loopback's: %m\n");
	if (fd >= 0)
		close(fd);
}

int root_mount(void)
{
	FILE *file = fopen("/root-disk", "re");
	char type[32] = "";

	if (!file)
		return 0;
	if (fscanf(file, "%31s", type) != 1)
		*type = 0;
	fclose(file);
	if (wait_for_disk() || make_and_mount(DISK, IMAGE, type, MS_RDONLY, NULL) ||
	    make_and_mount("tmpfs", CHANGES, "tmpfs", 0, "mode=755"))
		return 1;
	mkdir(CHANGES "/upper", 0755);
	mkdir(CHANGES "/work", 0755);
	if (make_and_mount("overlay", ROOT_FOLDER, "overlay", 0,
			   "lowerdir=" IMAGE ",upperdir=" CHANGES "/upper,workdir=" CHANGES "/work") ||
	    share_mounts())
		return 1;
	name_localhost();
	give_address();
	read_programs();
	return 0;
}
