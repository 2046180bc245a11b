BEGIN TRANSACTION;
CREATE TABLE activation (
	id INTEGER NOT NULL, 
	at VARCHAR NOT NULL, 
	map_id INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(map_id) REFERENCES map (id)
);
INSERT INTO "activation" VALUES(1,'2026-11-17T04:06:23.275+00:00',1);
CREATE TABLE "case" (
	id INTEGER NOT NULL, 
	created VARCHAR NOT NULL, 
	sha256 VARCHAR NOT NULL, 
	width INTEGER NOT NULL, 
	height INTEGER NOT NULL, 
	model VARCHAR NOT NULL, 
	map_id INTEGER NOT NULL, 
	policy_id INTEGER NOT NULL, 
	logits JSON NOT NULL, 
	probabilities JSON NOT NULL, 
	predicted INTEGER NOT NULL, 
	decision VARCHAR NOT NULL, 
	rule VARCHAR NOT NULL, 
	why VARCHAR NOT NULL, 
	diagnosis INTEGER, 
	diagnosed VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT case_decision CHECK (decision IN ('answer', 'refer')), 
	FOREIGN KEY(map_id) REFERENCES map (id), 
	FOREIGN KEY(policy_id) REFERENCES policy (id)
);
INSERT INTO "case" VALUES(1,'2026-11-17T04:06:23.385+00:00','899035691aaf642517ce362d6c488e7216ed30b858a22f97927b5eb0f34605aa',64,64,'lite0-ham10000-f8d6ae532144',1,1,'[-2.6819498538970947, 2.7804579734802246, -4.026980876922607, -3.633932113647461, -1.802456021308899, -3.622817039489746, -5.419138431549072]','[0.021571199938039156, 0.9045654863857371, 0.008596928458310395, 0.011248520058386613, 0.039365982811546095, 0.01133436080395162, 0.003317521544029085]',1,'refer','melanoma-not-excluded','Melanoma is not excluded: its probability 0.022 is above 0.020.',NULL,NULL);
INSERT INTO "case" VALUES(2,'2026-11-17T04:06:23.385+00:00','43d9eb01398d41ef34ebc59ce5752375549e14681176efa5d0aca245dbf62800',64,64,'lite0-ham10000-f8d6ae532144',1,1,'[-4.773349761962891, 6.150418758392334, -9.548219680786133, -7.755208969116211, -1.9341826438903809, -6.623716354370117, -6.2147369384765625]','[0.0005662539621389183, 0.9950195844317334, 2.1610923531537253e-05, 7.366703598764938e-05, 0.003947878128755896, 0.00015972550373676383, 0.00021128001411601773]',1,'answer','answer','Melanocytic nevus has calibrated probability 1.00, at or above every threshold; the expected cost of answering, 0.12, is below that of a referral, 4.',0,'2026-01-02T03:04:05.000+00:00');
INSERT INTO "case" VALUES(3,'2026-11-17T04:06:23.385+00:00','d6d1cee14281084036ec4329e34e67e7fb39e01f66e6b06e6ea1620add96598b',64,64,'lite0-ham10000-f8d6ae532144',1,1,'[-1.9048328399658203, 0.9637622833251953, -4.461675643920898, -1.7593740224838257, 1.599151372909546, -1.7515523433685303, -6.934503078460693]','[0.046467013697786205, 0.3305510994211299, 0.008084525177150947, 0.051327743449470525, 0.5104767741893147, 0.05160307008598324, 0.0014897739791643943]',4,'refer','threshold','The most probable class, Benign keratosis, has only 0.51; an answer needs 0.70.',NULL,NULL);
INSERT INTO "case" VALUES(4,'2026-11-17T04:06:23.385+00:00','a869dec02a35da74531c481fe7a723ea27161e0eeed8c61faf9de6680d1b9ff5',64,64,'lite0-ham10000-f8d6ae532144',1,1,'[-2.1469204425811768, 2.8549304008483887, -5.416667461395264, -3.213408946990967, 0.18566060066223145, -2.468341588973999, -6.981363773345947]','[0.026342543887093787, 0.8061550068112276, 0.002814523129659085, 0.012701809847247626, 0.12987714917481694, 0.021143752362281852, 0.0009652147876729104]',1,'refer','melanoma-not-excluded','Melanoma is not excluded: its probability 0.026 is above 0.020.',NULL,NULL);
INSERT INTO "case" VALUES(5,'2026-11-17T04:06:23.385+00:00','eb03a81ede25f6c6325c8fb4f0966badf2016cfdfc13d8136ba39b6d64db9b30',64,64,'lite0-ham10000-f8d6ae532144',1,1,'[-1.263128399848938, 2.110599994659424, -5.5998759269714355, -3.560490131378174, 1.4074326753616333, -2.599515438079834, -6.746851921081543]','[0.05572394316223621, 0.5599916982730292, 0.0028697545830951186, 0.011577863576460653, 0.34618736422510854, 0.02233975867743294, 0.0013096175026373357]',1,'refer','threshold','The most probable class, Melanocytic nevus, has only 0.56; an answer needs 0.70.',NULL,NULL);
INSERT INTO "case" VALUES(6,'2026-11-17T04:06:23.444+00:00','899035691aaf642517ce362d6c488e7216ed30b858a22f97927b5eb0f34605aa',64,64,'lite0-ham10000-f8d6ae532144',1,2,'[-2.6819498538970947, 2.7804579734802246, -4.026980876922607, -3.633932113647461, -1.802456021308899, -3.622817039489746, -5.419138431549072]','[0.021571199938039156, 0.9045654863857371, 0.008596928458310395, 0.011248520058386613, 0.039365982811546095, 0.01133436080395162, 0.003317521544029085]',1,'refer','melanoma-not-excluded','Melanoma is not excluded: its probability 0.022 is above 0.020.',1,'2026-01-02T03:04:05.000+00:00');
INSERT INTO "case" VALUES(7,'2026-11-17T04:06:23.444+00:00','a0437212398c76311a182475d6ac550ffae0d18705c682e8d8f2f4c114d0802b',64,64,'lite0-ham10000-f8d6ae532144',1,2,'[-2.09710431098938, 1.5106207132339478, -6.075888633728027, -4.014468669891357, 2.782557487487793, -4.207289695739746, -7.099689483642578]','[0.02406923790386377, 0.2838631151511494, 0.0015834174965266626, 0.006485212145622274, 0.6775289839892419, 0.005683923225745763, 0.0007861100878501744]',4,'refer','foreign','This does not look like the dermatoscopic pictures that the network was trained on, so its scores mean nothing and none is shown. Send a dermatoscopic picture of the lesion, or let a specialist look at it.',NULL,NULL);
CREATE TABLE map (
	id INTEGER NOT NULL, 
	created VARCHAR NOT NULL, 
	origin VARCHAR NOT NULL, 
	survey_id INTEGER, 
	model VARCHAR NOT NULL, 
	artefact VARCHAR NOT NULL, 
	verdict VARCHAR NOT NULL, 
	summary JSON NOT NULL, 
	reference JSON NOT NULL, 
	within_agreement BOOLEAN NOT NULL, 
	report VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	decided VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT map_status CHECK (status IN ('proposed', 'accepted', 'rejected')), 
	FOREIGN KEY(survey_id) REFERENCES survey (id)
);
INSERT INTO "map" VALUES(1,'2026-11-17T04:06:23.274+00:00','shipped',NULL,'lite0-ham10000-f8d6ae532144','{
"format": "temperance",
"version": 1,
"package": "0.1.0",
"kind": "map",
"map": {"kind": "temperature", "temperature": 1.462063178154305},
"classes": ["Melanoma", "Melanocytic nevus", "Basal cell carcinoma", "Bowen''s disease / actinic keratosis", "Benign keratosis", "Dermatofibroma", "Vascular lesion"],
"prior": [0.10029673590504451, 0.6718100890207716, 0.05400593471810089, 0.03560830860534125, 0.11275964391691394, 0.011275964391691394, 0.014243323442136498],
"fitted_on": null,
"findings": [],
"sha256": "097eeff6a6f8b1279a3f376579e0006019aec92fe04005b700d76a710a05ee3f"
}
','labelled','{"temperature": [1.462063178154305, 1.462063178154305, 1.462063178154305], "bias": null, "prior": [0.10029673590504451, 0.6718100890207716, 0.05400593471810089, 0.03560830860534125, 0.11275964391691394, 0.011275964391691394, 0.014243323442136498], "rows": 1685, "findings": []}','{"rows": 1685, "mix": [0.08249258160237388, 0.716913946587537, 0.05459940652818991, 0.0314540059347181, 0.1026706231454006, 0.002967359050445104, 0.008902077151335312], "confidence": 0.7596173952557421, "deviation": 0.22410593543312984}',1,'','accepted','2026-11-17T04:06:23.271+00:00');
INSERT INTO "map" VALUES(2,'2026-11-17T04:06:24.427+00:00','survey',1,'lite0-ham10000-f8d6ae532144','{
"format": "temperance",
"version": 1,
"package": "0.1.0",
"kind": "map",
"map": {"kind": "temperature", "temperature": 1.462063178154305},
"classes": ["Melanoma", "Melanocytic nevus", "Basal cell carcinoma", "Bowen''s disease / actinic keratosis", "Benign keratosis", "Dermatofibroma", "Vascular lesion"],
"prior": [0.10029673590504451, 0.6718100890207716, 0.05400593471810089, 0.03560830860534125, 0.11275964391691394, 0.011275964391691394, 0.014243323442136498],
"fitted_on": null,
"findings": [],
"sha256": "097eeff6a6f8b1279a3f376579e0006019aec92fe04005b700d76a710a05ee3f"
}
','refused','{"temperature": [1.0, 1.0, 1.0], "accuracy": [0.5, 0.0, 1.0], "ece_before": [0.5, 0.0, 1.0], "ece_after": [0.5, 0.0, 1.0], "findings": [{"code": "TP301", "title": "5 target rows are too few.", "evidence": {"rows": 5, "least": 30}, "advice": "Collect at least 30 rows, better 200 or more.", "severity": "refuse"}, {"code": "TP104", "title": "The model predicts another class mix than the prior: 49% of the rows would have to change class, 25.2% is expected by chance.", "evidence": {"distance": 0.49338312853719135, "noise": 0.2523054749119657, "p_value": 0.0, "most": "Melanocytic nevus"}, "advice": "At least 24% of the predictions are wrong if the prior is right; ''Melanocytic nevus'' is predicted too often.", "severity": "warn"}, {"code": "TP105", "title": "The class mix was not given: it was estimated, as if nothing but the mix had changed.", "evidence": {"low": [0.0, 4.06493628980091e-16, 0.0, 0.0, 9.85307059635349e-23, 1.0787496002904832e-12, 0.0], "high": [1.0512003822019198e-35, 0.9999999992397673, 7.192231616921799e-53, 1.8964848725584252e-32, 0.7520242571189857, 0.9999999871448028, 2.515886324672975e-44]}, "advice": "Give the mix you expect; an estimate is not knowledge.", "severity": "warn"}, {"code": "TP303", "title": "7 of 7 classes are expected in fewer than 5 rows.", "evidence": {"classes": 7, "effective_rows": 9.998249052371278}, "advice": "The class mix says little about these classes; their bias is mostly left alone.", "severity": "note"}], "meaning": "These data do not support a new map. The model''s confidence is kept as it is.", "prior": [3.7399563562412394e-144, 0.5066168682427205, 1.0730121391844577e-213, 5.000942964744496e-106, 3.220088276161475e-09, 0.49338312853719135, 8.934330433006849e-193], "prior_kind": "estimated", "accuracy_before": [0.5, 0.0, 1.0], "assumptions": ["Only the class mix has changed, so that it could be estimated.", "The target has the classes of the model and no others.", "The source rows were not used to train the model.", "A shift shows in at least two of: rows unlike the source, class mix, belief."], "would_change": ["Labels of a few target rows, from the list of rows to label first.", "A class mix that is known and not estimated.", "More target rows."], "guarantee": "None: without labels every number here is an estimate under the assumptions.", "bias": null, "rows": 5, "objection": "5 different pictures are fewer than the 100 agreed on.", "changes": {"before": {"rows": 5, "referred": 800.0, "wrong": 0.06686518696596977, "melanomas": 10.20615375983, "melanomas_missed": 0.003603731164582332, "cost": 3200.7965815481016, "by_rule": {"threshold": 400.0, "melanoma-threshold": 0.0, "melanoma-not-excluded": 400.0, "cost": 0.0}}, "after": {"rows": 5, "referred": 400.0, "wrong": 19.241470131193772, "melanomas": 10.20615375983, "melanomas_missed": 2.0777324542375855, "cost": 2092.4818647673237, "by_rule": {"threshold": 0.0, "melanoma-threshold": 0.0, "melanoma-not-excluded": 200.0, "cost": 200.0}}}}','{"rows": 5, "mix": [0.0, 0.8, 0.0, 0.0, 0.2, 0.0, 0.0], "confidence": 0.8329690874845351, "deviation": 0.16760540553666528}',0,'<html></html>','proposed',NULL);
CREATE TABLE policy (
	id INTEGER NOT NULL, 
	at VARCHAR NOT NULL, 
	policy JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "policy" VALUES(1,'2026-11-17T04:06:23.276+00:00','{"threshold": 0.7, "melanoma_threshold": 0.9, "melanoma_ceiling": 0.02, "costs": {"missed_melanoma": 200, "missed_malignancy": 60, "false_alarm": 5, "other_error": 1, "referral": 4}}');
INSERT INTO "policy" VALUES(2,'2026-11-17T04:06:23.402+00:00','{"threshold": 0.6, "melanoma_threshold": 0.9, "melanoma_ceiling": 0.02, "costs": {"missed_melanoma": 200, "missed_malignancy": 60, "false_alarm": 5, "other_error": 1, "referral": 4}}');
CREATE TABLE survey (
	id INTEGER NOT NULL, 
	created VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "survey" VALUES(1,'2026-11-17T04:06:23.453+00:00','');
CREATE TABLE survey_image (
	survey_id INTEGER NOT NULL, 
	sha256 VARCHAR NOT NULL, 
	logits JSON NOT NULL, 
	PRIMARY KEY (survey_id, sha256), 
	FOREIGN KEY(survey_id) REFERENCES survey (id)
);
INSERT INTO "survey_image" VALUES(1,'899035691aaf642517ce362d6c488e7216ed30b858a22f97927b5eb0f34605aa','[-2.6819498538970947, 2.7804579734802246, -4.026980876922607, -3.633932113647461, -1.802456021308899, -3.622817039489746, -5.419138431549072]');
INSERT INTO "survey_image" VALUES(1,'43d9eb01398d41ef34ebc59ce5752375549e14681176efa5d0aca245dbf62800','[-4.773349761962891, 6.150418758392334, -9.548219680786133, -7.755208969116211, -1.9341826438903809, -6.623716354370117, -6.2147369384765625]');
INSERT INTO "survey_image" VALUES(1,'d6d1cee14281084036ec4329e34e67e7fb39e01f66e6b06e6ea1620add96598b','[-1.9048328399658203, 0.9637622833251953, -4.461675643920898, -1.7593740224838257, 1.599151372909546, -1.7515523433685303, -6.934503078460693]');
INSERT INTO "survey_image" VALUES(1,'a869dec02a35da74531c481fe7a723ea27161e0eeed8c61faf9de6680d1b9ff5','[-2.1469204425811768, 2.8549304008483887, -5.416667461395264, -3.213408946990967, 0.18566060066223145, -2.468341588973999, -6.981363773345947]');
INSERT INTO "survey_image" VALUES(1,'eb03a81ede25f6c6325c8fb4f0966badf2016cfdfc13d8136ba39b6d64db9b30','[-1.263128399848938, 2.110599994659424, -5.5998759269714355, -3.560490131378174, 1.4074326753616333, -2.599515438079834, -6.746851921081543]');
CREATE INDEX case_sha256 ON "case" (sha256);
CREATE INDEX case_created ON "case" (created);
COMMIT;
PRAGMA user_version = 2;
