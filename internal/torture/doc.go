// Command torture kills acode at counted system calls, resumes it, and judges where it ends.
//
// It runs a plan of 20 steps with every kind of step, kills acode, its process group, its
// supervisor or both before, inside and after durable calls, kills up to three of the resumes
// too, and then lets it finish. A judge that never asks acode counts the lines of a ledger
// that commands append to, compares the workspace with a tree computed from the plan, and
// reads copies of the store with sqlite3. What no kill can show is looked for in images that
// a power cut may leave and in the order of calls.
//
// What one plan does not combine, plans drawn at random do: groups of changes that move over
// each other's paths, captures that only some tasks see, commands that change files, steps
// that fail rightly. In every third plan up to four tasks run at once, three
// steps at a time. Each is carried out undisturbed, which holds acode and the computed end
// against each other, and then killed anywhere, often in the middle of a group of changes and of
// its rollback. Then the machine goes down: in images of a session of its own, and once more
// while it is resumed, so that the recovery from a power cut is cut too. A seed and a number name
// a plan, its kills and about its images: numbers of calls shift a little from run to run.
//
// The same sessions run on real file systems too (ext4, xfs and btrfs, which only root can mount), whose disk
// sees every write and flush: the power is cut at any of them, also of the resumes, and what such a disk
// may keep is mounted again, recovered by the kernel and resumed. Other disks break: nothing can be written
// any more, acode has to end by itself, and a resume goes on with a disk in its place.
//
// Then come people: scenarios, drawn at random too, of what is typed, by two at a time, of signals
// and kills at instants that nobody counts, and of files and directories that are changed by hand. In the
// end somebody goes on as acode proposes until the session is over. Each exit status is held against
// the store, each line of JSON against the status, what only looks against every byte there is, and
// what an attempt did to the ledger against what the journal says of it. A seed and a number name a
// scenario; its instants differ from run to run.
//
// Two more kinds of scenarios use the same people. In one the machine shuts down again and again: acode, its
// supervisor, the command and its children get TERM, HUP or INT, and up to 250 ms later KILL. In the other the
// session is cancelled, while it is carried out or after it was left. An outcome may be unknown only where a
// supervisor was killed or a signal ended the command. A person answers from the ledger and gives the value of
// a torn capture; nothing else repeats an effect but a check or a policy of the plan. After a cancel no step is
// in progress, and each effect has a receipt or is recorded as unknown. Flag -only carries out one kind.
//
// In every series the receipts are compared with the truth: what a command was to print, and what sha256sum
// and grep say of the workspace as it was when a step read or searched it.
//
// Every series must fail for /bin/true in acode's place, and a list of bugs, planted into
// copies of the sources, must each be found: a judge that has found nothing has shown
// nothing before.
//
// Package model has the plans and where each must end, scene what anybody can see of a session, and
// people those people. What kills and cuts is here:
//
//	main, harness         the series, their workers and their table
//	points, random        where a session is killed; trial, answers: one session to its end; judge: that end
//	images, cuts, order   images of power cuts, and the order of calls; reboot: another boot of the machine
//	disks, life, broken   real file systems
//	people                the kinds of scenarios; people_bugs: what they must find
//	bugs, finders, build  planted bugs, and who looks for them
package main
