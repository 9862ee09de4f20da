/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline)) /* keeps the usual path of its caller short */

#endif
