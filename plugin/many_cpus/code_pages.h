/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of the kernel's own code. Once QEMU has translated code of a page, it has to notice writes to that page. So it
 * looks through all TLBs of all CPUs for entries that allow them: with 512 CPUs that takes 5 ms, for each of some 2,000
 * pages. Here it is asked to notice writes to all pages around at once.
 */
#ifndef CODE_PAGES_H
#define CODE_PAGES_H

#include "qemu/qemu_api.h"

/* Where QEMU is not as it is known, nothing changes. */
void code_pages_init(void);

/* The block is about to be translated. */
void code_pages_translate(const struct qemu_plugin_tb *tb);

#endif
