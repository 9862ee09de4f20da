/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BOOT_ROOT_H
#define BOOT_ROOT_H

/*
 * Where the file /root-disk names a file system: mount the machine's disk, which has it, under an overlay in memory, with
 * what programs expect to find mounted, and read its programs and libraries once. Returns 0, or 1 after reporting the
 * error.
 */
int root_mount(void);

#endif
