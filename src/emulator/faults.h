// The device's fault, for the parts of the emulator that find one outside a kernel's threads.
#pragma once
#include <string>

#include "emulator/fault.h"
#include "emulator/memory.h"

namespace faibench::emulator {

/// Keeps it unless there is one already.
void raise(Fault fault);
bool has_fault();
/// Of the fault there is.
const std::string& fault_message();

const LentMemory& lent_memory();

}  // namespace faibench::emulator
