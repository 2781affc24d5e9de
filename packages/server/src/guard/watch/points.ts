// The heads from which one log must continue (README.md). One replaces another only once the log is known to continue
// from both. Nothing here reads the database.
import { type AuditKey, type Head, type KeptHead, nextPolicyEpoch } from '../../core/audit/formats/chain.js'
import { isPast, isSame, laterOf, latestOf, type Point, sealedOf, weighPoint } from './judge.js'

export class Points {
  #points: Point[] = [] // the first is the last one that this process committed or read; before that, the first one from another source
  #told: Point[] = [] // from another source, and not yet compared: their policy versions are weighed once the audit key is known
  #latestTold: KeptHead | undefined
  #forged: KeptHead | undefined

  constructor(private readonly tenant_id: string) {}

  /** The last head that this process committed or read; before that, the first one from another source. */
  get current(): KeptHead | undefined {
    return this.#points[0]?.head
  }

  /** All points that are not yet checked. */
  get all(): KeptHead[] {
    return [...this.#points, ...this.#told].map(({ head }) => head)
  }

  /** The latest head that this process committed or read, or that the checkpoint file has. */
  get witnessed(): KeptHead | undefined {
    const told = ({ by }: Point) => by === 'copy' || by === 'entry'
    return latestOf([...this.#points, ...this.#told].map((point) => (told(point) ? undefined : point.head)))
  }

  /** The latest head in the form for an alarm: without a policy version that is not proven yet. */
  get proven(): KeptHead | undefined {
    return latestOf([...this.#points, ...withoutVersions(this.#told)].map(({ head }) => head))
  }

  /** The latest head from another source, in the form for an alarm. */
  get provenTold(): KeptHead | undefined {
    return latestOf([this.#latestTold, ...withoutVersions(this.#told).map(({ head }) => head)])
  }

  // The latest forged copy of an anchored head: the anchor's root proves only its id and hash.
  get forged(): KeptHead | undefined {
    return this.#forged
  }

  /** An operator accepted the present content of the database, so no earlier copy counts as changed. */
  settle(): void {
    this.#forged = undefined
    for (const point of this.#told) if (point.by === 'copy') point.by = 'entry'
  }

  remember(head: KeptHead): void {
    this.#told.push({ head, by: 'file' })
  }

  // No comparison is needed if a later head was seen, unless the database contradicts it.
  rememberAnchored(head: KeptHead, { isContradicted = false } = {}): void {
    const [current] = this.#points
    const isSeen = current?.by === 'process' && isPast(current.head, head)
    if (isSeen && (!isContradicted || isSame(current.head, head))) return
    const isHeld = this.all.some((other) => isSame(other, head) && other.policy_version >= head.policy_version)
    if (!isHeld) this.#told.push({ head, by: head.mac ? 'copy' : 'entry' })
  }

  hasUnweighed(after_id = -1): boolean {
    return this.#told.some(({ head }) => head.last_id > after_id)
  }

  weigh(auditKey: AuditKey): void {
    const { tenant_id } = this
    for (const point of this.#told.splice(0)) {
      const { head, isForged } = weighPoint(point, { tenant_id, auditKey, known: this.current })
      if (isForged) this.#forged = laterOf(this.#forged, head)
      this.#latestTold = laterOf(this.#latestTold, head)
      this.#hold({ head, by: point.by })
    }
  }

  // Keeps different heads of the same entry: an attacker may have had another log anchored, or a line written to the file.
  #hold(point: Point): void {
    const same = this.#points.find(({ head }) => isSame(head, point.head))
    if (!same) this.#points.push(point)
    else if (same.head.policy_version < point.head.policy_version) same.head = point.head
  }

  // Returns false if a later head is known: a commit after its deadline may end after later ones, and the log must
  // continue from both. Only an accepted rollback lowers the id, and this process knows of the one that it committed.
  commit(head: Head): boolean {
    const before = this.current
    const isAccepted = before && nextPolicyEpoch(head.policy_version) > nextPolicyEpoch(before.policy_version)
    const isLatest = !before || isAccepted || isPast(head, before)
    if (isLatest) this.#points[0] = { head, by: 'process' }
    else if (!isSame(before, head)) this.#points.push({ head, by: 'process' })
    return isLatest
  }

  // Replaces the passed points by the head, or by the last entry of a stretch. Such an entry has no MAC of a head, so
  // it takes the highest policy version of these points.
  reach(reached: KeptHead, passed: ReadonlySet<KeptHead>): void {
    const [first, ...others] = this.#points.filter(({ head }) => passed.has(head))
    const left = this.#points.filter(({ head }) => !passed.has(head))
    const isHead = reached.mac !== undefined
    if (!isHead && first) {
      const heads = [first, ...others].map(({ head }) => head)
      reached.policy_version = Math.max(...[reached, ...heads].map((head) => head.policy_version))
      reached.sealed = latestOf(heads.map(sealedOf))
    }
    const next: Point = { head: reached, by: isHead || !first ? 'process' : first.by }
    const [current] = this.#points
    if (first === current) this.#points = [next, ...left]
    // A head that was read earlier does not displace one that was committed meanwhile.
    else this.#points = isHead && current && isPast(current.head, reached) ? left : [...left, next]
  }
}

function withoutVersions(told: readonly Point[]): Point[] {
  return told.map(({ head, by }) => ({ head: { ...head, policy_version: 0 }, by }))
}
