/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instruments code as QEMU translates it: nothing but the agent's marks until it is armed; from then on kernel code
 * with a callback at each access, call and return, user code with one at each store, to see the tasks count their
 * operations, and if user memory is to be recorded too, at each access.
 */
#ifndef TRANSLATION_H
#define TRANSLATION_H

#include <stdbool.h>

#include "qemu_api.h"

/* `on_mark` is called at each mark. */
void translation_init(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t on_mark);

/* Throw all translated code away: what is translated from now on is instrumented, or no longer. */
void translation_arm(bool armed);
bool translation_is_armed(void);

#endif
