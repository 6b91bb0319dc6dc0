// Package sandbox confines commands that a model has chosen.
//
// A confined command can write below its workspace, its private home and its private
// temporary directory only. It can read these, and the directories of a list: the system
// and toolchains. It cannot reach other processes. Without Profile.Network it reaches no
// network.
//
// acode starts itself again as the first stage of the command. Enter builds the sandbox
// and then executes the command in place of the stage. So the pid, the pipes and the
// process group are those of the command from the beginning. A user namespace needs this
// stage: a process with several threads cannot enter one.
//
// There are two modes:
//
//   - Namespaces: a private root of read-only mounts, a network with a loopback
//     interface only, and Landlock.
//   - Filter, where the kernel refuses user namespaces: Landlock for files, and a filter
//     of system calls that refuses all sockets.
//
// A system without Landlock cannot confine commands.
package sandbox
