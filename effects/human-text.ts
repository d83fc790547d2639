import { HUMAN_TEXT_CHARS_MAX, isHumanText } from './effect.ts';
import { HoldfastError } from './errors.ts';

/**
 * Checks who says something and why.
 * @param what - what names them, as in `a decision`
 * @param place - what stands in front of the name of the malformed one, for the error's place. Default nothing
 * @throws HoldfastError `bad_input`, place = the malformed one
 */
export function checkHumanTexts(
  what: string,
  { actor, reason }: { readonly actor: string; readonly reason: string },
  place = '',
): void {
  for (const [name, text] of Object.entries({ actor, reason })) {
    if (isHumanText(text)) continue;
    const message = `${what} names its ${name} in 1 to ${HUMAN_TEXT_CHARS_MAX} characters`;
    throw new HoldfastError('bad_input', message, { place: `${place}${name}` });
  }
}
