// latency: cycles of one dependent load, by a chase through pointers that the host laid out.
//
// Launch:       1 thread. `first` points at the first link; each link holds the address of the next. L1 is bypassed (.cg).
extern "C" __global__ void latency(const unsigned long long* first, int hops, unsigned long long* last, long long* cycles) {
    unsigned long long at = reinterpret_cast<unsigned long long>(first);
    const long long start = clock64();
    for (int i = 0; i < hops; ++i) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
    const long long end = clock64();
    *last = at;
    *cycles = end - start;
}
