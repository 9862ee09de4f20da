/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instructions by number: half the size of an address. Numbers begin with 1; 0 stands for none. */
#ifndef INSNS_H
#define INSNS_H

#include <stdint.h>

uint32_t insns_number(uint64_t pc);
uint64_t insns_pc(uint32_t number);

#endif
