// Operand lists of wgmma's inline assembly, for results of 32, 64, 96 and 128 registers (N = twice as many).
//
// Operands of D come first: "%0, %1, …" as text (NCUBBLE_D…) and "+f"(d[0]), … as constraints (NCUBBLE_F…).
#pragma once

#define NCUBBLE_D32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NCUBBLE_D64 \
    NCUBBLE_D32 ", " "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NCUBBLE_D96 \
    NCUBBLE_D64 ", " "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NCUBBLE_D128 \
    NCUBBLE_D96 ", " "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// Four and sixteen from the i-th on.
#define NCUBBLE_QUAD(d, i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define NCUBBLE_SIXTEEN(d, i) \
    NCUBBLE_QUAD(d, i), NCUBBLE_QUAD(d, (i) + 4), NCUBBLE_QUAD(d, (i) + 8), NCUBBLE_QUAD(d, (i) + 12)
#define NCUBBLE_F32(d) NCUBBLE_SIXTEEN(d, 0), NCUBBLE_SIXTEEN(d, 16)
#define NCUBBLE_F64(d) NCUBBLE_F32(d), NCUBBLE_SIXTEEN(d, 32), NCUBBLE_SIXTEEN(d, 48)
#define NCUBBLE_F96(d) NCUBBLE_F64(d), NCUBBLE_SIXTEEN(d, 64), NCUBBLE_SIXTEEN(d, 80)
#define NCUBBLE_F128(d) NCUBBLE_F96(d), NCUBBLE_SIXTEEN(d, 96), NCUBBLE_SIXTEEN(d, 112)

// The instruction with both operands in shared memory. The operands after D are numbered from R = N / 2 on: A, B,
// whether to accumulate, majors.
#define NCUBBLE_WGMMA_SHARED(N, TYPE, R, R1, R2, R3, R4)                                                              \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #R2 ", 0;\n\t"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NCUBBLE_D##R                    \
                 "}, %" #R ", %" #R1 ", p, 1, 1, %" #R3 ", %" #R4 ";\n\t}"                                            \
                 : NCUBBLE_F##R(d)                                                                                    \
                 : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(kMajorA)), "n"(int(kMajorB)))
