// Package campaign holds hostile tests of acode. They flip bytes of its files, put old
// files back, take its locks away, start it two hundred times at once, freeze it, and
// swap directories for symbolic links while it runs.
//
// The tests build cmd/acode and run it as real processes. These invariants must hold:
//
//	A1  verify names a flipped byte, or every row and blob still reads the same.
//	A2  A resume of flipped files refuses and changes nothing, or ends as an undisturbed
//	    one.
//	A3  verify names a store that lost its end or was replaced by an older copy.
//	A4  However many processes resume at once, and however many of them are killed, at
//	    most one executes at any time, and each effect happens once.
//	A5  A holder whose lock was taken away writes nothing after another process takes
//	    over.
//	A6  No byte lands outside the workspace while its directories become symbolic links.
//
// The tests observe from outside acode where they can: they compare trees, count the
// lines of a ledger, and read copies of the store with sqlite3. Each check must fail for
// a program that does nothing.
//
// An ordinary test takes a sample. The environment chooses the long form:
//
//	ACODE_TORTURE_FLIPS=all|N      flip every byte, or N of them
//	ACODE_TORTURE_WORKERS=N        trials at a time; 0 means one per processor
//	ACODE_TORTURE_RESUMES=N        concurrent resumes; 200 is the long form
//	ACODE_TORTURE_SEED=N           seed of all random choices
package campaign
