// The Python of the independent programs.
import { spawnSync } from 'node:child_process'

/**
 * The interpreter that `python3` starts: with pyenv `python3` is a shell script, which takes longer than most
 * programs.
 */
export const PYTHON = findInterpreter()

function findInterpreter(): string {
  const { status, stdout } = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' })
  return (status === 0 && stdout.trim()) || 'python3'
}
