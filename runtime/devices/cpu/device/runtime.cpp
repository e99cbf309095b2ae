// The runtime as one translation unit: a shared object, compiled once, that all kernels are linked to.
#include "scheduler.cpp"
#include "calls.cpp"
#include "barriers.cpp"
#include "tensor_copies.cpp"
#include "wgmma.cpp"
#include "mma.cpp"
#include "symbols.hpp"
#ifdef WARPCPU_CHECK
#include "checker.cpp"
#include "asynchronous_checks.cpp"
#include "counter.cpp"
#include "instrumentation.hpp"
#endif
