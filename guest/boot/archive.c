// SPDX-License-Identifier: GPL-2.0-or-later
#include "archive.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/report.h"

#define MAGIC "070701"
#define HEADER_BYTES 110 /* the magic, and 13 fields of eight hex digits */
#define NAME_BYTES 256

enum field { MODE = 1, FILE_SIZE = 6, NAME_SIZE = 11 };

struct archive {
	const char *bytes;
	size_t length, at;
};

static size_t padded(size_t at)
{
	return (at + 3) & ~(size_t)3;
}

static int field(const char *header, enum field nr, uint32_t *value)
{
	const char *digits = header + strlen(MAGIC) + 8 * nr;

	*value = 0;
	for (int i = 0; i < 8; i++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = digits[i] ? strchr(hex, digits[i]) : NULL;

		if (!digit)
			return 1;
		*value = *value << 4 | (digit - hex);
	}
	return 0;
}

/* The next so many bytes of it, NULL where there are not as many. What follows is padded. */
static const char *take(struct archive *archive, size_t length)
{
	const char *bytes = archive->bytes + archive->at;

	if (length > archive->length - archive->at)
		return NULL;
	archive->at = padded(archive->at + length);
	if (archive->at > archive->length)
		archive->at = archive->length;
	return bytes;
}

static int write_file(int folder, const char *name, mode_t mode, const char *content, size_t size)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
	size_t written = 0;

	if (fd < 0)
		return report_error("machine", "cannot make the file %s: %m", name);
	while (written < size) {
		ssize_t some = write(fd, content + written, size - written);

		if (some <= 0) {
			close(fd);
			return report_error("machine", "cannot write the file %s: %m", name);
		}
		written += some;
	}
	close(fd);
	return 0;
}

/* 1: it was written; 0: it was the last; -1: it is no such archive. */
static int unpack_next(int folder, struct archive *archive, int *failed)
{
	const char *header = archive->bytes + archive->at, *name, *content;
	uint32_t mode, size, name_size;

	if (archive->length - archive->at < HEADER_BYTES || memcmp(header, MAGIC, strlen(MAGIC)))
		return -1;
	if (field(header, MODE, &mode) || field(header, FILE_SIZE, &size) || field(header, NAME_SIZE, &name_size))
		return -1;
	if (name_size < 2 || name_size > NAME_BYTES || !take(archive, HEADER_BYTES + name_size))
		return -1;
	name = header + HEADER_BYTES;
	if (strnlen(name, name_size) != name_size - 1)
		return -1;
	if (!strcmp(name, "TRAILER!!!"))
		return 0;
	content = take(archive, size);
	if (!content || !S_ISREG(mode) || strchr(name, '/'))
		return -1;
	*failed = write_file(folder, name, mode, content, size);
	return 1;
}

int archive_unpack(int folder, const char *bytes, size_t length)
{
	struct archive archive = { .bytes = bytes, .length = length };
	int more, failed = 0;

	do
		more = unpack_next(folder, &archive, &failed);
	while (more > 0 && !failed);
	return more < 0 ? report_error("machine", "what was handed over is no archive of files") : failed;
}
