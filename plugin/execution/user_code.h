/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees user code store the tasks' counts of operations; and access memory, if user memory is recorded. */
#ifndef USER_CODE_H
#define USER_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "qemu/qemu_api.h"

/* Instrument this instruction of user code. */
void user_code_watch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size);

#endif
