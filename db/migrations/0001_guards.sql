-- The database's own copy of the rules (paired with effects/transition.ts).
CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'holdfast: % refused on %.%', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = coalesce(TG_ARGV[0], TG_NAME), TABLE = TG_TABLE_NAME;
END $$;
--> statement-breakpoint
-- The rules of a row, each by its name. In a function, which Postgres keeps parsed: the text of CHECK constraints and of long
-- WHEN clauses is parsed again for each statement, which took a fifth to two fifths of the two healthy ones. AFTER, because a
-- BEFORE trigger locks the row first, with a WAL record of its own.
CREATE FUNCTION holdfast.check_effect() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  broken text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    -- The healthy first move: a claim with everything that a claim has to show.
    IF NEW.status = 'DISPATCHED' AND NEW.fence = 1 AND NEW.sends = 1 AND num_nulls(NEW.nonce, NEW.process_id, NEW.send_by_at,
        NEW.deadline_at, NEW.effect_key, NEW.request_hash) = 0
        AND NEW.effect_class IN ('PURE', 'IDEMPOTENT', 'REPLAYABLE', 'UNKNOWN', 'NON_RETRYABLE') THEN
      RETURN NULL;
    END IF;
    -- A row begins as a claim, the first of its fence, or as a refusal that sent nothing.
    broken := CASE WHEN NOT ((NEW.status = 'DISPATCHED' AND NEW.fence = 1 AND NEW.sends = 1)
      OR (NEW.status = 'NOT_APPLIED' AND NEW.sends = 0)) THEN 'effects_legal_start' END;
  ELSE
    broken := CASE
      WHEN (OLD.status <> NEW.status AND (OLD.status, NEW.status) NOT IN (
          ('DISPATCHED', 'CONFIRMED'), ('DISPATCHED', 'NOT_APPLIED'), ('DISPATCHED', 'UNKNOWN'),
          ('UNKNOWN', 'CONFIRMED'), ('UNKNOWN', 'NOT_APPLIED'), ('UNKNOWN', 'DISPATCHED'),
          ('NOT_APPLIED', 'CONFIRMED'), ('CONFIRMED', 'NOT_APPLIED')))
        -- A new claim carries a new fence and one more send; nothing else moves them.
        OR (OLD.status = 'UNKNOWN' AND NEW.status = 'DISPATCHED'
          AND (NEW.fence <> OLD.fence + 1 OR NEW.sends <> OLD.sends + 1 OR NEW.nonce = OLD.nonce
            OR OLD.effect_class IN ('NON_RETRYABLE', 'UNKNOWN')))
        OR (NOT (OLD.status = 'UNKNOWN' AND NEW.status = 'DISPATCHED')
          AND (NEW.fence, NEW.sends, NEW.nonce) IS DISTINCT FROM (OLD.fence, OLD.sends, OLD.nonce))
        -- What forbids a verdict is never taken back: the latest send-by, and bytes that left after it.
        OR NEW.send_by_at < OLD.send_by_at
        OR (NEW.send_by_at IS NULL AND OLD.send_by_at IS NOT NULL)
        OR (OLD.sent_late AND NOT NEW.sent_late)
      THEN 'effects_legal_move'
    END;
  END IF;
  -- What every row has to show, whatever it went through.
  broken := coalesce(broken, CASE
    WHEN NEW.status NOT IN ('DISPATCHED', 'CONFIRMED', 'NOT_APPLIED', 'UNKNOWN') THEN 'effects_status'
    WHEN NEW.effect_class NOT IN ('PURE', 'IDEMPOTENT', 'REPLAYABLE', 'UNKNOWN', 'NON_RETRYABLE') THEN 'effects_class'
    WHEN NEW.status = 'NOT_APPLIED' THEN CASE WHEN NEW.reason_code IS NULL THEN 'effects_reason' END
    WHEN num_nulls(NEW.nonce, NEW.process_id, NEW.send_by_at, NEW.deadline_at, NEW.effect_key, NEW.effect_class,
      NEW.request_hash) > 0 OR NEW.fence < 1 OR NEW.sends < 1 THEN 'effects_claimed_or_refused'
  END);
  IF broken IS NOT NULL THEN
    RAISE EXCEPTION 'holdfast: % refused on %.%', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = broken, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER effects_legal_start AFTER INSERT ON holdfast.effects FOR EACH ROW EXECUTE FUNCTION holdfast.check_effect();
--> statement-breakpoint
-- The healthy second move passes by: a claim was looked at when it was made, and what it showed can be changed only through the
-- two triggers after this one.
CREATE TRIGGER effects_legal_move AFTER UPDATE ON holdfast.effects FOR EACH ROW
WHEN (NOT (OLD.status = 'DISPATCHED' AND NEW.status = 'CONFIRMED'))
EXECUTE FUNCTION holdfast.check_effect();
--> statement-breakpoint
-- Claims anew, or whatever else names these columns.
CREATE TRIGGER effects_legal_claim
AFTER UPDATE OF fence, sends, nonce, process_id, send_by_at, deadline_at ON holdfast.effects FOR EACH ROW
EXECUTE FUNCTION holdfast.check_effect();
--> statement-breakpoint
-- Identity and the pinned tuple never change: no statement may as much as name them.
CREATE TRIGGER effects_pinned
BEFORE UPDATE OF tenant, run_id, call_id, tool, version, contract_digest, args_hash, recorded_at, effect_class, effect_key,
  request_hash, account ON holdfast.effects FOR EACH STATEMENT
EXECUTE FUNCTION holdfast.refuse('effects_legal_move');
--> statement-breakpoint
-- Room on each page for the second version of its rows: both on one page saves a quarter of the WAL (see db/schema.ts).
ALTER TABLE holdfast.effects SET (fillfactor = 70);
--> statement-breakpoint
CREATE TRIGGER effects_never_deleted BEFORE DELETE ON holdfast.effects FOR EACH ROW EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER effects_never_truncated BEFORE TRUNCATE ON holdfast.effects EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER effect_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON holdfast.effect_events EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER evidence_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON holdfast.evidence EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER decisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON holdfast.decisions EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER contracts_immutable BEFORE UPDATE ON holdfast.contracts FOR EACH ROW
WHEN ((OLD.digest, OLD.tool, OLD.version, OLD.owner, OLD.effect_class, OLD.provider, OLD.source, OLD.layer_digests, OLD.published_by, OLD.published_at)
  IS DISTINCT FROM (NEW.digest, NEW.tool, NEW.version, NEW.owner, NEW.effect_class, NEW.provider, NEW.source, NEW.layer_digests, NEW.published_by, NEW.published_at))
EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER contracts_never_deleted BEFORE DELETE OR TRUNCATE ON holdfast.contracts EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
CREATE TRIGGER credentials_immutable BEFORE UPDATE ON holdfast.credentials FOR EACH ROW
WHEN ((OLD.name, OLD.version, OLD.account, OLD.grants) IS DISTINCT FROM (NEW.name, NEW.version, NEW.account, NEW.grants))
EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
-- Part of every effect key, so it can be set only once.
CREATE TRIGGER deployments_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON holdfast.deployments EXECUTE FUNCTION holdfast.refuse();
--> statement-breakpoint
-- Workers and commands act as this role: it cannot rewrite what was appended, nor delete an effect.
-- Roles belong to the whole server, so another database may have made it already, or may be making it now
-- (then one of the two hears "tuple concurrently updated", an internal error).
DO $$
DECLARE may_act text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  BEGIN
    CREATE ROLE holdfast_app NOLOGIN;
  EXCEPTION WHEN duplicate_object OR unique_violation OR internal_error THEN NULL;
  END;
  -- From Postgres 16 on, whoever creates a role may hand it on but not act as it.
  IF NOT pg_has_role(CURRENT_USER, 'holdfast_app', may_act) THEN
    EXECUTE format('GRANT holdfast_app TO %I', CURRENT_USER);
  END IF;
END $$;
--> statement-breakpoint
GRANT USAGE ON SCHEMA holdfast TO holdfast_app;
--> statement-breakpoint
GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO holdfast_app;
--> statement-breakpoint
GRANT INSERT, UPDATE ON holdfast.tenants, holdfast.contracts, holdfast.credentials, holdfast.effects TO holdfast_app;
--> statement-breakpoint
GRANT INSERT, UPDATE, DELETE ON holdfast.processes, holdfast.resource_holds TO holdfast_app;
--> statement-breakpoint
GRANT INSERT ON holdfast.deployments, holdfast.payloads, holdfast.effect_events, holdfast.evidence, holdfast.decisions TO holdfast_app;
