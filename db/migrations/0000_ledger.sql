-- The migrator makes the schema first, for its own table.
CREATE SCHEMA IF NOT EXISTS "holdfast";
--> statement-breakpoint
CREATE TABLE "holdfast"."contracts" (
	"digest" "bytea" PRIMARY KEY NOT NULL,
	"tool" text NOT NULL,
	"version" text NOT NULL,
	"owner" text NOT NULL,
	"effect_class" text NOT NULL,
	"provider" text NOT NULL,
	"layer_digests" jsonb NOT NULL,
	"source" text NOT NULL,
	"state" text DEFAULT 'live' NOT NULL,
	"published_by" text NOT NULL,
	"published_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "contracts_state" CHECK ("holdfast"."contracts"."state" IN ('live', 'retiring', 'retired'))
);
--> statement-breakpoint
CREATE TABLE "holdfast"."credentials" (
	"name" text NOT NULL,
	"version" text NOT NULL,
	"account" text NOT NULL,
	"grants" text[] NOT NULL,
	"current" boolean NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "credentials_name_version_pk" PRIMARY KEY("name","version")
);
--> statement-breakpoint
CREATE TABLE "holdfast"."decisions" (
	"tenant" text NOT NULL,
	"decision_id" text NOT NULL,
	"run_id" text NOT NULL,
	"call_id" text NOT NULL,
	"at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"ruling" text NOT NULL,
	"actor" text NOT NULL,
	"source" text NOT NULL,
	"reason" text NOT NULL,
	"expected_status" text NOT NULL,
	"expected_fence" integer NOT NULL,
	"force" boolean NOT NULL,
	"correction" boolean NOT NULL,
	"applied" boolean NOT NULL,
	"refusal" text,
	CONSTRAINT "decisions_tenant_decision_id_pk" PRIMARY KEY("tenant","decision_id"),
	CONSTRAINT "decisions_ruling" CHECK ("holdfast"."decisions"."ruling" IN ('confirm', 'not_applied'))
);
--> statement-breakpoint
CREATE TABLE "holdfast"."deployments" (
	"singleton" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"deployment_id" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "deployments_one_row" CHECK ("holdfast"."deployments"."singleton")
);
--> statement-breakpoint
CREATE TABLE "holdfast"."effect_events" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "holdfast"."effect_events_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"tenant" text NOT NULL,
	"run_id" text NOT NULL,
	"call_id" text NOT NULL,
	"kind" text NOT NULL,
	"from_status" text,
	"to_status" text,
	"fence" integer NOT NULL,
	"actor" text NOT NULL,
	"reason" text,
	"data" jsonb
);
--> statement-breakpoint
CREATE TABLE "holdfast"."effects" (
	"recorded_at" timestamp with time zone NOT NULL,
	"claimed_at" timestamp with time zone,
	"send_by_at" timestamp with time zone,
	"deadline_at" timestamp with time zone,
	"in_flight_max_ms" bigint,
	"process_id" uuid,
	"nonce" uuid,
	"fence" integer NOT NULL,
	"sends" integer NOT NULL,
	"tenant" text NOT NULL,
	"run_id" text NOT NULL,
	"call_id" text NOT NULL,
	"tool" text NOT NULL,
	"version" text NOT NULL,
	"contract_digest" "bytea" NOT NULL,
	"effect_class" text,
	"provider" text,
	"effect_key" text,
	"capabilities" text[],
	"credential" text,
	"credential_version" text,
	"account" text,
	"args_hash" "bytea" NOT NULL,
	"request_hash" "bytea",
	"args" text,
	"state_before" text,
	"looks" integer DEFAULT 0 NOT NULL,
	"twin_guard" boolean DEFAULT false NOT NULL,
	"sent_late" boolean DEFAULT false NOT NULL,
	"status" text NOT NULL,
	"settled_by" text,
	"settled_at" timestamp with time zone,
	"next_look_at" timestamp with time zone,
	"provider_ref" text,
	"result" text,
	"result_info" jsonb,
	"reason_code" text,
	"reason" text,
	"attention" text,
	CONSTRAINT "effects_tenant_run_id_call_id_pk" PRIMARY KEY("tenant","run_id","call_id")
);
--> statement-breakpoint
CREATE TABLE "holdfast"."evidence" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "holdfast"."evidence_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"tenant" text NOT NULL,
	"run_id" text NOT NULL,
	"call_id" text NOT NULL,
	"asked_at" timestamp with time zone NOT NULL,
	"written_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"fence" integer NOT NULL,
	"verdict" text NOT NULL,
	"why" text,
	"observed" text,
	"actor" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "holdfast"."payloads" (
	"tenant" text NOT NULL,
	"hash" "bytea" NOT NULL,
	"body" text NOT NULL,
	"stored_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "payloads_tenant_hash_pk" PRIMARY KEY("tenant","hash")
);
--> statement-breakpoint
CREATE TABLE "holdfast"."processes" (
	"process_id" uuid PRIMARY KEY NOT NULL,
	"started_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"beat_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	"ttl_ms" integer NOT NULL,
	"fenced_at" timestamp with time zone,
	"ended_at" timestamp with time zone,
	"info" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "holdfast"."resource_holds" (
	"tenant" text NOT NULL,
	"provider" text NOT NULL,
	"resource" text NOT NULL,
	"run_id" text NOT NULL,
	"call_id" text NOT NULL,
	CONSTRAINT "resource_holds_tenant_provider_resource_pk" PRIMARY KEY("tenant","provider","resource")
);
--> statement-breakpoint
CREATE TABLE "holdfast"."tenants" (
	"tenant" text PRIMARY KEY NOT NULL,
	"state" text DEFAULT 'active' NOT NULL,
	"payload_bytes_max" integer DEFAULT 1048576 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
	CONSTRAINT "tenants_state" CHECK ("holdfast"."tenants"."state" IN ('active', 'suspended'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX "contracts_tool_version" ON "holdfast"."contracts" USING btree ("tool","version");--> statement-breakpoint
CREATE UNIQUE INDEX "credentials_one_current" ON "holdfast"."credentials" USING btree ("name") WHERE "holdfast"."credentials"."current";--> statement-breakpoint
CREATE INDEX "decisions_effect" ON "holdfast"."decisions" USING btree ("tenant","run_id","call_id");--> statement-breakpoint
CREATE INDEX "effect_events_effect" ON "holdfast"."effect_events" USING btree ("tenant","run_id","call_id","id");--> statement-breakpoint
CREATE UNIQUE INDEX "effects_open_twin" ON "holdfast"."effects" USING btree ("tenant","tool","args_hash") WHERE "holdfast"."effects"."status" IN ('DISPATCHED', 'UNKNOWN') AND "holdfast"."effects"."twin_guard";--> statement-breakpoint
CREATE INDEX "effects_claims" ON "holdfast"."effects" USING btree ("process_id","deadline_at") WHERE "holdfast"."effects"."status" = 'DISPATCHED';--> statement-breakpoint
CREATE INDEX "effects_due" ON "holdfast"."effects" USING btree ("next_look_at") WHERE "holdfast"."effects"."status" = 'UNKNOWN';--> statement-breakpoint
CREATE UNIQUE INDEX "effects_one_artefact" ON "holdfast"."effects" USING btree ("tenant","provider",coalesce("account", ''),"provider_ref") WHERE "holdfast"."effects"."provider_ref" IS NOT NULL AND "holdfast"."effects"."status" = 'CONFIRMED' AND "holdfast"."effects"."effect_class" NOT IN ('PURE', 'REPLAYABLE');--> statement-breakpoint
CREATE INDEX "effects_attention" ON "holdfast"."effects" USING btree ("tenant","recorded_at") WHERE "holdfast"."effects"."attention" IS NOT NULL;--> statement-breakpoint
CREATE INDEX "evidence_effect" ON "holdfast"."evidence" USING btree ("tenant","run_id","call_id","id");--> statement-breakpoint
CREATE INDEX "resource_holds_effect" ON "holdfast"."resource_holds" USING btree ("tenant","run_id","call_id");