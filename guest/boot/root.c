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
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "machine/root_folder.h"
#include "protocol/report.h"

#define DISK "/dev/vda"
#define IMAGE "/image" /* the read-only file system of the disk */
#define CHANGES "/changes" /* what programs write */
#define READ_SHARE 16 /* one part of the memory is for files of the image, but not more than: */
#define MOST_READ (512ul << 20)
#define PAGE 4096 /* what a file or a folder takes at least, with its name */

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
	/* An image's own /run stays: packages make their folders for sockets there. */
	mkdir(ROOT_FOLDER "/run", 0755);
	return 0;
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

/* First programs, then what they work on. Of the rest of /usr they seldom read much. */
static const char *const read_in_turn[] = { "/bin", "/sbin", "/lib", "/lib64", "/opt", "/usr/bin", "/usr/sbin",
					    "/usr/lib", "/usr/local", "/usr/libexec", "" };
static unsigned long bytes_left;
static dev_t overlay;

/*
 * It has its own turn, is the rest of /usr, or a mount of something else. An overlay tells its own device for folders only: with
 * FTW_MOUNT, nftw() would leave out all files.
 */
static int is_left_out(const char *path, const struct stat *status)
{
	path += strlen(ROOT_FOLDER);
	if (status->st_dev != overlay || !strcmp(path, "/usr"))
		return 1;
	for (size_t i = 0; i < sizeof(read_in_turn) / sizeof(*read_in_turn); i++)
		if (!strcmp(path, read_in_turn[i]))
			return 1;
	return 0;
}

static int read_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	static char part[1 << 18];
	ssize_t length;
	int fd;

	if (bytes_left < PAGE)
		return FTW_STOP;
	if (kind == FTW_D && place->level && is_left_out(path, status))
		return FTW_SKIP_SUBTREE;
	bytes_left -= PAGE;
	if (kind != FTW_F || !S_ISREG(status->st_mode) || (unsigned long)status->st_size > bytes_left)
		return FTW_CONTINUE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return FTW_CONTINUE;
	while ((length = read(fd, part, sizeof(part))) > 0)
		;
	bytes_left -= status->st_size;
	close(fd);
	return FTW_CONTINUE;
}

/*
 * To read a file for the first time is work of the kernel that a server has done long ago: pages of the disk, and names.
 * What is read now is in the memory that is kept.
 */
static void read_image(void)
{
	struct sysinfo memory;
	struct stat status;
	char path[64];

	if (sysinfo(&memory) || stat(ROOT_FOLDER, &status))
		return;
	bytes_left = memory.totalram * memory.mem_unit / READ_SHARE;
	if (bytes_left > MOST_READ)
		bytes_left = MOST_READ;
	overlay = status.st_dev;
	for (size_t i = 0; i < sizeof(read_in_turn) / sizeof(*read_in_turn); i++) {
		snprintf(path, sizeof(path), ROOT_FOLDER "%s", read_in_turn[i]);
		/* Of what links to /usr, the target is read; links are not followed. */
		if (!lstat(path, &status) && S_ISDIR(status.st_mode))
			nftw(path, read_file, 16, FTW_PHYS | FTW_ACTIONRETVAL);
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
	read_image();
	return 0;
}
