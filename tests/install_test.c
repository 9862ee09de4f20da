// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loads the recorder, its first argument, as QEMU does, into one that has the versions of the plugin interface from the
 * second argument to the third: each real QEMU has one such range. It exits with what the recorder answers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../plugin/qemu/qemu_api.h"

/* QEMU and GLib: what is not called at once is not looked for at once. */

__thread void *current_cpu;

GByteArray *g_byte_array_new(void)
{
	static GByteArray none;

	return &none;
}

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_simple_cb_t cb, void *userdata)
{
	(void)id, (void)cb, (void)userdata;
}

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb, void *userdata)
{
	(void)id, (void)cb, (void)userdata;
}

void qemu_plugin_register_flush_cb(qemu_plugin_id_t id, qemu_plugin_simple_cb_t cb, qemu_plugin_id_t userdata)
{
	(void)id, (void)cb, (void)userdata;
}

int main(int argc, char **argv)
{
	int (*install)(qemu_plugin_id_t, const qemu_info_t *, int, char **);
	char option[] = "out=/", *options[] = { option };
	qemu_info_t info = { .target_name = "x86_64", .system_emulation = true, .system = { 1, 1 } };
	void *recorder = argc == 4 ? dlopen(argv[1], RTLD_LAZY) : NULL;

	if (!recorder) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	install = (int (*)(qemu_plugin_id_t, const qemu_info_t *, int, char **))dlsym(recorder, "qemu_plugin_install");
	info.version.min = atoi(argv[2]);
	info.version.cur = atoi(argv[3]);
	return install(1, &info, 1, options) ? 1 : 0;
}
