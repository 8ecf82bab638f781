package main

// Main is the program, for the tests that run it as a process.
func Main() { main() }
