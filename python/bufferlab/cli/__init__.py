"""The command line, a file for each command. The program begins in `entry`; `app` finds the command and runs it."""
