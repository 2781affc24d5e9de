// Ends a vitest worker when its run has died (Ctrl-C, SIGKILL); otherwise it would go on with its test.
process.on('disconnect', () => process.exit(1))
