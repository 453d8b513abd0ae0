// What a process needs in its environment before it starts.
#pragma once

namespace cosformer {

// Has OpenMP's threads wait awake for some 50 us, by the CPU, and then sleep, where the user has
// not said otherwise: GCC's runtime lets them spin for milliseconds, which takes the core from
// whoever would have let them go on (measured with another process on one of two cores: prompts at
// width 512 run at 0.7 of one thread's speed so, and at 0.95 with short waits). The runtime reads
// this when the process starts. Returns whether it changed the environment.
bool BoundWaiting();

// Starts this program anew with its arguments and today's environment. Returns where that fails:
// the work is done all the same, at whatever speed there is.
void Restart(char** argv);

}  // namespace cosformer
