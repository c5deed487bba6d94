// What keeps a submission's sender and receiver apart: all that passes from one to the other is the payload that the judge hands over.
#pragma once

namespace faibench {

/// For either of them, before its library is loaded and on top of confine_submission(): files can be read but not written, made, renamed or locked, no sockets, no System V or
/// POSIX objects, no programs, no processes of its own. (Threads, private memory and stderr stay free.)
void forbid_channels();

/// For the receiver, after its library was loaded: of system calls only those for memory, threads, time and the descriptors it was started with; no name of a file can be used any more, nor
/// anything be learnt of another process. Throws Error(bad_input) where the library mapped memory that it would share with others.
void forbid_everything_but_memory();

}  // namespace faibench
