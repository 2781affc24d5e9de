// A worker of vitest whose run has died (Ctrl-C, SIGKILL) would go on with its test: it ends too.
process.on('disconnect', () => process.exit(1))
