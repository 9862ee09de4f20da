// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "handover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/random.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine/init.h"
#include "protocol/crc32.h"
#include "protocol/report.h"

#define MOST_MIB 1024
#define SEED_BYTES 32
#define HEADER_BYTES 256 /* before the archive: a line that tells what it is */

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_PRESENT (1ull << 63)
#define PAGE_FRAME ((1ull << 55) - 1)

int room_make(struct room *room)
{
	FILE *file = fopen("/room", "re");
	unsigned long mib = 0;

	if (!file || fscanf(file, "%lu", &mib) != 1 || !mib || mib > MOST_MIB)
		return report_error("machine", "/room does not say how many MiB it shall have");
	fclose(file);
	room->size = mib << 20;
	room->bytes = mmap(NULL, room->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room->bytes == MAP_FAILED)
		return report_error("machine", "no room of %lu MiB: %m", mib);
	/* As huge pages they might be moved together later; what is locked stays in memory. */
	madvise(room->bytes, room->size, MADV_NOHUGEPAGE);
	if (mlock(room->bytes, room->size))
		return report_error("machine", "no room of %lu MiB: %m", mib);
	memset(room->bytes, 0, room->size);
	return 0;
}

/* The page frames of all its pages; NULL after reporting why they are not known. */
static uint64_t *page_frames(const struct room *room, size_t pages)
{
	uint64_t *frames = calloc(pages, sizeof(*frames));
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t first = (uintptr_t)room->bytes / getpagesize();
	ssize_t wanted = pages * sizeof(*frames);

	if (!frames || fd < 0 || pread(fd, frames, wanted, first * sizeof(*frames)) != wanted) {
		report_error("machine", "cannot read where memory lies: %m (CONFIG_PROC_PAGE_MONITOR?)");
		free(frames);
		frames = NULL;
	}
	if (fd >= 0)
		close(fd);
	for (size_t i = 0; frames && i < pages; i++)
		frames[i] = frames[i] & PAGE_PRESENT ? frames[i] & PAGE_FRAME : 0;
	return frames;
}

static int say_where(const struct room *room)
{
	size_t pages = room->size / getpagesize();
	uint64_t *frames = page_frames(room, pages);

	if (!frames)
		return 1;
	report_room(frames, pages);
	free(frames);
	return 0;
}

/*
 * All copies of a machine have the same random numbers to come. Each gets a seed of its own, which is used at once: the
 * kernel would else do so in five minutes.
 */
static void reseed(const char *hex)
{
	unsigned char seed[SEED_BYTES];
	int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	for (int i = 0; i < SEED_BYTES && sscanf(hex + 2 * i, "%2hhx", &seed[i]) == 1; i++)
		;
	if (fd < 0 || write(fd, seed, sizeof(seed)) != sizeof(seed))
		printf("agent: no new random numbers: %m\n");
	if (fd >= 0) {
		ioctl(fd, RNDRESEEDCRNG);
		close(fd);
	}
}

int handover_wait(const struct room *room, const char **archive, size_t *length)
{
	int line = open(SECOND_SERIAL_LINE, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	char seed[2 * SEED_BYTES + 1], newline;
	uint32_t crc;

	if (line < 0)
		return report_error("machine", "cannot listen on " SECOND_SERIAL_LINE ": %m");
	if (say_where(room))
		return 1;
	/* A line of one byte comes at once; how a longer one comes would depend on how busy the host is. */
	if (read(line, &newline, 1) != 1)
		return report_error("machine", "cannot listen on " SECOND_SERIAL_LINE ": %m");
	close(line);
	room->bytes[HEADER_BYTES - 1] = '\0';
	if (sscanf(room->bytes, "go %zu %" SCNx32 " %64s", length, &crc, seed) != 3)
		return report_error("machine", "does not understand how it is handed over what it shall do");
	*archive = room->bytes + HEADER_BYTES;
	if (*length > room->size - HEADER_BYTES || crc32(*archive, *length) != crc)
		return report_error("machine", "what was handed over came damaged");
	reseed(seed);
	return 0;
}
