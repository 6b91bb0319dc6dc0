// Command torture kills acode at counted system calls, resumes it, and judges the end.
//
// The fixed plan has 20 steps with every kind of step. The command kills acode, its
// process group, its supervisor or both before, inside and after durable calls. It kills
// up to three of the resumes too, and then lets acode finish. A judge observes from
// outside acode: it counts the lines of a ledger that commands append to, compares the
// workspace with a tree computed from the plan, and reads copies of the store with
// sqlite3. Images that a power cut may leave, and the order of calls, cover faults that
// no kill can show.
//
// Random plans combine more: groups of changes that move over each other's paths,
// captures that only some tasks see, commands that change files, and steps that must
// fail. In every third plan up to four tasks run at once, three steps at a time. An
// undisturbed session compares acode with the computed end. Then sessions are killed
// anywhere, often in the middle of a group of changes and of its rollback. Then the power
// is cut: in images of another session, and again during the resume, so that the recovery
// is cut too. A seed and a number identify a plan, its kills and approximately its
// images, because the numbers of calls shift a little from run to run.
//
// The same sessions run on real file systems (ext4, xfs and btrfs, which only root can
// mount). Their disk sees every write and flush. The power is cut at any of them, also
// during the resumes. A possible content of the disk is mounted again, recovered by the
// kernel and resumed. Other disks break: all writes fail, acode must end by itself, and a
// resume continues on a replacement disk.
//
// Scenarios with people are random too. One or two people type commands, signals and
// kills come at random instants, and files and directories are changed by hand. In the
// end a person follows the advice of acode until the session is over. The judge compares
// each exit status with the store, each line of JSON with the status, and the bytes of
// all files before and after commands that only read. It also compares the effects of
// attempts in the ledger with the journal. A seed and a number identify a scenario; its
// instants differ from run to run.
//
// Two more kinds of scenarios use the same people. In one the machine shuts down
// repeatedly: acode, its supervisor, the command and its children get TERM, HUP or INT,
// and up to 250 ms later KILL. In the other the session is cancelled, while it executes
// or after it was left. An outcome may be unknown only if a supervisor was killed or a
// signal ended the command. A person answers from the ledger and gives the value of a
// torn capture. Otherwise only a check or a policy of the plan may repeat an effect.
// After a cancel no step is in progress, and each effect has a receipt or is recorded as
// unknown. Flag -only executes one kind.
//
// Agents are killed too: a client that makes calls of every kind over the pipes of a real
// server, that server, and the supervisor of the commands, each and together. The client
// also dies after each number of bytes of its answers. It forgets the end of its
// transcript, comes back and makes its last calls again. The judge compares its
// transcript with the ledger of the commands and with the files.
//
// Prompts are killed too: a model that follows a script plans in three tries, and then
// works on three tasks at once. A person denies and approves. acode
// dies before and after each request, at five places of each reply, around the line of
// each command, each change of a file and each commit, and at other calls. At every
// second place its supervisor dies too. The
// judge reads the ledger, the files, and all requests that the model got.
//
// In every series the judge compares the receipts with the truth. The truth is the output
// that a command must print, and the results of sha256sum and grep on the workspace at
// the time of the read or search.
//
// Every series must fail for /bin/true in acode's place. The judges must find each of a
// list of bugs planted into copies of the sources, because otherwise a silent judge shows
// nothing.
//
// Package model has the plans and their ends, scene observes a session, and people has
// the people. The kills and cuts are in these files:
//
//	main, harness         the series, their workers and their table
//	points, random        where a session is killed; trial, answers: one session to its
//	                      end; judge: that end
//	images, cuts, order   images of power cuts, and the order of calls; reboot: another
//	                      boot of the machine
//	disks, life, broken   real file systems
//	people                the kinds of scenarios; people_bugs: the bugs that they must
//	                      find
//	agent, agents        one script of an agent; the series; agent_bugs: the bugs that
//	                     they must find
//	prompts_script       what the model says, and the results that it must get
//	prompts              one session of it; prompts_spots: where it is killed;
//	                     prompts_judge: its end; prompts_series: the series;
//	                     prompts_bugs: the bugs that they must find
//	bugs, finders, build  planted bugs, and the judges that search for them
package main
