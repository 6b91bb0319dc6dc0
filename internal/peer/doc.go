// Package peer holds tests of acode's servers against public programs of the Model
// Context Protocol.
package peer
