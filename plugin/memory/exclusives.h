/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A load and a store that together are one atomic access (arch.h, enum exclusive_kind). They are counted as an atomic
 * instruction is: one read and one write, both of the load's instruction. A store that fails is not a write.
 */
#ifndef EXCLUSIVES_H
#define EXCLUSIVES_H

#include <stdbool.h>

#include "cpu/exclusive.h"
#include "qemu/qemu_api.h"

/* Remember what this instruction loads; `site` is its accesses_site(). */
void exclusives_watch_load(struct qemu_plugin_insn *insn, void *site);

/* Whether this access of an exclusive store is a write: it is not a load of the emulator's, and did not fail. */
bool exclusives_is_write(struct exclusive *exclusive, qemu_plugin_meminfo_t info);

#endif
