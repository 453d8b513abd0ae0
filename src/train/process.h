// What a process must be like for libtorch to run at the machine's speed. All of it fails silently
// when it is missing: a factor of five for the BLAS where it does not know the CPU, 10 to 17 % of a
// training step for memory. And what it says when there is no more memory.
#pragma once

#include <string>

namespace cosformer {

// Starts this program again, once, with the environment that it needs, unless the user has set the
// variables. Call it first in main; it returns in the process that is to do the work.
//   OPENBLAS_CORETYPE  where OpenBLAS does not know the CPU and would use kernels without AVX
//   GLIBC_TUNABLES     memory that is freed is kept for the next tensor, in huge pages: otherwise
//                      every large tensor is mapped, faulted in page by page, and unmapped
// From here on a tensor that finds no room is a report::OutOfMemory: libtorch's own error has no
// type to tell it apart by.
void PrepareProcess(char** argv);

// Threads of torch and OpenMP; 0: all cores that the process may run on. Returns their number.
int SetThreads(int threads);

// What is wrong with the BLAS that is loaded, as a sentence that says what to install; empty when
// nothing is.
std::string BlasComplaint();

}  // namespace cosformer
