"""From logits and embeddings to scores, a calibrated open-set classifier, its metrics, and the files that hold it.

In the order of the data:

    LogitTable, EmbeddingTable   of images, what a network gives
    ScoreFunction                one number for each image, larger for unknown; fitted to FittingData where it needs it
    Calibration                  the bias: known if and only if score + bias <= 0
    OpenSetScores                of images, the scores, the bias and the closed-set predictions
    EvaluationReport             the metrics of one score of one network
    ScoreReport, ScoreChoice     of several scores, those metrics on development data, and which is best
    ScoredNetwork                a network with the score that was chosen for it
    ValidationScores             what a promotion compares two models by
    OpenSetClassifier            network, score, bias, class names and model card, in a folder
"""
