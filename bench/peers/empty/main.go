// Command empty does nothing. It measures the start and end of a Go program.
package main

func main() {}
