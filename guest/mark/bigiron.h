/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For programs that mark their own recorded part (bigiron run --marked): what all CPUs do from bigiron_begin() to
 * bigiron_end() is counted. Elsewhere than in a recorded virtual machine both do nothing.
 */
#ifndef BIGIRON_H
#define BIGIRON_H

#if defined(__x86_64__)
#define bigiron_mark(mark) __asm__ volatile(".byte 0x66, 0x87, 0xc9" : : "a"(0x6269676972306eul), "D"(mark), "S"(0ul), "d"(0ul) : "memory")
#elif defined(__powerpc64__)
#define bigiron_mark(mark) __asm__ volatile("mr 3,%0; mr 4,%1; li 5,0; li 6,0; xori 0,0,0" : : "r"(0x6269676972306eul), "r"(mark) : "r3", "r4", "r5", "r6", "memory")
#elif defined(__aarch64__)
#define bigiron_mark(mark) __asm__ volatile("mov x0,%0; mov x1,%1; mov x2,xzr; mov x3,xzr; mov x28,x28" : : "r"(0x6269676972306eul), "r"(mark) : "x0", "x1", "x2", "x3", "memory")
#endif
#define bigiron_begin() bigiron_mark(9ul)
#define bigiron_end() bigiron_mark(10ul)

#endif
