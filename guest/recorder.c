// SPDX-License-Identifier: GPL-2.0-or-later
#include "recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include "report.h"

int record_symbols(void)
{
	static char part[1 << 16];
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return report_error("machine", "cannot read the kernel's symbols: %m (CONFIG_KALLSYMS?)");
	while ((length = read(fd, part, sizeof(part))) > 0)
		recorder_mark(MARK_SYMBOLS, part, length);
	close(fd);
	return length < 0 ? report_error("machine", "cannot read the kernel's symbols: %m") : 0;
}
