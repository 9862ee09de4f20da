/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instruments code as QEMU translates it. Until it is armed, only the agent's marks have callbacks. From then on, kernel
 * code has one at each access, call and return. User code has one at each store, to see tasks count their operations; or
 * at each access, if user memory is recorded.
 */
#ifndef TRANSLATION_H
#define TRANSLATION_H

#include <stdbool.h>

#include "qemu/qemu_api.h"

/* `on_mark` is called at each mark. */
void translation_init(qemu_plugin_id_t id, int api_version, qemu_plugin_vcpu_udata_cb_t on_mark);

/* Throw all translated code away. From now on code is instrumented, or is not. */
void translation_arm(bool armed);
bool translation_is_armed(void);

/* Instructions of the kernel whose accesses the emulator does not tell: how many were translated. */
uint64_t translation_unseen(void);

/* Throw all translated code away: what is to be instrumented has changed. */
void translation_again(void);

#endif
