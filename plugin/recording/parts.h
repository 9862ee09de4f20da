/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of a program's recording (program.h): code is instrumented only while one runs. */
#ifndef PARTS_H
#define PARTS_H

void parts_begin(void);
void parts_end(void);

#endif
