/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An archive of files in cpio's "newc" format, as the kernel's own initramfs has. */
#ifndef ARCHIVE_H
#define ARCHIVE_H

#include <stddef.h>

/* Write the plain files in it into a folder, open as `folder`. Returns 0, or 1 after reporting the error. */
int archive_unpack(int folder, const char *bytes, size_t length);

#endif
