import type { Attention, EffectStatus } from './effect.ts';

/** Who asks for a move; PROTOCOL 7 says who may make which. */
export const MOVERS = [
  'admission',
  'withdraw',
  'holder',
  'late_answer',
  'fencer',
  'sweep',
  'evidence',
  'decision',
  'resend',
  'pure',
] as const;
/** One of {@link MOVERS}. */
export type Mover = (typeof MOVERS)[number];

/** What a move rests on; what is left out is false. */
export interface MoveFacts {
  /** How often the call was handed to a socket, counting the claim in question. */
  readonly sends: number;
  /** The provider definitely refused. */
  readonly refused?: boolean;
  /** The error came before the request was given to a connected socket. */
  readonly notSent?: boolean;
  /** Class PURE applies nothing, so any number of sends proves nothing against "not applied". */
  readonly pure?: boolean;
  /** Set when bytes left after send-by: evidence of absence then proves nothing. */
  readonly sentLate?: boolean;
  /** A decision marked as correction of a verdict. */
  readonly correction?: boolean;
  /** The row is DISPATCHED and the process that holds it has a live lease. */
  readonly leaseAlive?: boolean;
}

/** Whether a move may be made, and the attention it leaves; or why not. */
export type MoveVerdict =
  | { readonly allowed: true; readonly attention: Attention | null }
  | { readonly allowed: false; readonly why: string };

const yes = (attention: Attention | null = null): MoveVerdict => ({ allowed: true, attention });
const no = (why: string): MoveVerdict => ({ allowed: false, why });

/**
 * The table of moves (PROTOCOL 7), pure. `from` is null for a row that does not exist yet.
 * The database repeats the status half of it in a trigger.
 */
export function transition(from: EffectStatus | null, to: EffectStatus, by: Mover, facts: MoveFacts): MoveVerdict {
  switch (from) {
    case null:
      return fromNothing(to, by);
    case 'DISPATCHED':
      return fromDispatched(to, by, facts);
    case 'UNKNOWN':
      return fromUnknown(to, by, facts);
    case 'NOT_APPLIED':
      if (to !== 'CONFIRMED') return no('a NOT_APPLIED effect can only be found applied after all');
      if (by === 'decision') return yes();
      return by === 'evidence' || by === 'late_answer' ? yes('CONFLICT') : no(`${by} cannot confirm a settled effect`);
    case 'CONFIRMED':
      return to === 'NOT_APPLIED' && by === 'decision' && facts.correction === true
        ? yes('CONFLICT')
        : no('a CONFIRMED effect moves only by a decision marked as correction');
  }
}

function fromNothing(to: EffectStatus, by: Mover): MoveVerdict {
  if (to === 'DISPATCHED' && by === 'admission') return yes();
  if (to === 'NOT_APPLIED' && (by === 'admission' || by === 'withdraw')) return yes();
  return no(`${by} cannot create an effect as ${to}`);
}

function fromDispatched(to: EffectStatus, by: Mover, facts: MoveFacts): MoveVerdict {
  if (by === 'holder') {
    if (to === 'CONFIRMED' || to === 'UNKNOWN') return yes();
    return to === 'NOT_APPLIED' ? definitelyNot(facts) : no('not a move');
  }
  if (to !== 'UNKNOWN') return no(`only the holder settles a DISPATCHED effect, not ${by}`);
  if (by === 'fencer' || by === 'sweep') return yes();
  if (by === 'decision') return facts.leaseAlive ? no('the holder is alive and may still answer') : yes();
  return no(`${by} cannot give up a claim`);
}

function fromUnknown(to: EffectStatus, by: Mover, facts: MoveFacts): MoveVerdict {
  switch (to) {
    case 'CONFIRMED':
      return by === 'evidence' || by === 'late_answer' || by === 'decision' ? yes() : no(`${by} is no proof`);
    case 'NOT_APPLIED':
      if (by === 'decision') return yes();
      if (by === 'pure') return facts.pure ? yes() : no('only a PURE call can be given up as not applied');
      if (by === 'late_answer') return definitelyNot(facts);
      if (by !== 'evidence') return no(`${by} is no proof`);
      return facts.sentLate ? no('bytes left after send-by, so absence proves nothing') : yes();
    case 'DISPATCHED':
      return by === 'resend' ? yes() : no('an UNKNOWN effect is sent again only through re-send');
    case 'UNKNOWN':
      return no('not a move');
  }
}

function definitelyNot(facts: MoveFacts): MoveVerdict {
  if (!facts.refused && !facts.notSent) return no('no definite refusal and not provably unsent');
  if (facts.sends > 1 && !facts.pure) return no('an earlier send of this effect may have been applied');
  return yes();
}
