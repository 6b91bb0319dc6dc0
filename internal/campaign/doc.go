// Package campaign holds the tests that treat acode as an enemy would: they flip bytes of
// its files, put old files back, take its locks away, start it two hundred times at once,
// freeze it, and swap directories for symbolic links under its hands.
//
// They build cmd/acode and run it as real processes. What must hold:
//
//	A1  A flipped byte is named by verify, or every row and blob still reads the same.
//	A2  A resume of flipped files refuses and changes nothing, or ends as an undisturbed one.
//	A3  A store that lost its end, or was put back older, is named.
//	A4  However many resume at once, and however many of them are killed, one executes at any
//	    time, and each effect happens once.
//	A5  A holder whose lock was taken away writes nothing once another has taken over.
//	A6  No byte lands outside the workspace while its directories become symbolic links.
//
// No judge asks acode about itself where it can look: it compares trees, counts the lines
// of a ledger, and reads copies of the store with sqlite3. Each judge must fail for a
// program that does nothing.
//
// A plain test takes a sample. The long form is chosen by the environment:
//
//	ACODE_TORTURE_FLIPS=all|N      flip every byte, or N of them
//	ACODE_TORTURE_WORKERS=N        trials at a time; 0 means one a processor
//	ACODE_TORTURE_RESUMES=N        concurrent resumes; 200 is the long form
//	ACODE_TORTURE_SEED=N           of all that is chosen at random
package campaign
