// SPDX-License-Identifier: GPL-2.0-or-later
#include "recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void record_symbols(void)
{
	static char part[1 << 16];
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return;
	while ((length = read(fd, part, sizeof(part))) > 0)
		recorder_mark(MARK_SYMBOLS, part, length);
	close(fd);
}

void record_module_symbols(void)
{
	static char part[1 << 16];
	FILE *symbols = fopen("/proc/kallsyms", "re");
	size_t length = 0;

	/* Of a line ADDRESS TYPE NAME, a tab and the module's name in brackets; most have no module. */
	while (symbols && fgets(part + length, sizeof(part) - length, symbols)) {
		if (!strstr(part + length, "\t["))
			continue;
		length += strlen(part + length);
		if (sizeof(part) - length < 1024) {
			recorder_mark(MARK_SYMBOLS, part, length);
			length = 0;
		}
	}
	if (length)
		recorder_mark(MARK_SYMBOLS, part, length);
	if (symbols)
		fclose(symbols);
}
